"""Bundles from files of decoders that users exported."""

import json
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support.bundles import tokenizer_json
from tests.support.decoders import config_of, random_weights, whole_models
from tests.support.htp_models import needs_htp
from xdlc import llm
from xdlc.container import load
from xdlc.errors import ConstraintError, ModelError, UnsupportedOp, UsageError
from xdlc.ir import BlockScaleOffset, Model, Tensor, make_op
from xdlc.ir.dtype import INT32, INT64, SFIXED8
from xdlc.llm.bundle import Bundle
from xdlc.llm.decoder import read_decoder
from xdlc.llm.layout import Length, ports
from xdlc.llm.running import opened

CONFIG = config_of(
    "llama",
    hidden_size=64,
    head_dim=32,
    intermediate_size=96,
    max_position_embeddings=128,
    bos_token_id=1,
    eos_token_id=2,
)
PROMPT, TOKEN = Length(32, 128), Length(1, 128)
OPTIONS: dict[str, Any] = {"targets": (), "weights": "fp16", "context": 128, "prompt_tokens": 32}
EXAMPLE = Path(__file__).parents[2] / "examples/llm/export_decoder.py"
IDS = [1, 5, 17, 80, 3]


def floats(*lengths: Length) -> Model:
    """Return a float decoder, with a graph of each length."""
    decoder = read_decoder(CONFIG)
    first, *others = whole_models(decoder, random_weights(decoder), lengths).values()
    for model in others:
        first.add_graph(model.main)
    return first


def saved(folder: Path, model: Model, name: str = "decoder.dlc") -> Path:
    """Write a decoder with what stands beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "tokenizer.json").write_bytes(tokenizer_json())
    model.save(folder / name)
    return folder / name


def tokens_of(bundle: Bundle, engine: str = "host", ids: list[int] = IDS, count: int = 6) -> list[int]:
    endless = replace(bundle, facts=replace(bundle.facts, eos=()))
    with opened(endless, engine) as ask:
        return list(ask(ids, count))


def test_a_dlc_with_two_graphs_becomes_a_bundle(tmp_path: Path) -> None:
    source = saved(tmp_path / "source", floats(PROMPT, TOKEN))
    bundle = llm.build(source, tmp_path / "bundle", **OPTIONS)
    (part,) = map(load, bundle.parts)
    assert list(part.graphs) == ["prompt_ar32_cl128_1_of_1", "token_ar1_cl128_1_of_1"]
    types = {tensor.dtype.name for graph in part.graphs.values() for tensor in ports(graph).values()}
    assert types == {"float16", "int32"}
    facts = bundle.facts
    assert (facts.family, facts.vocab, facts.layers, facts.kv_heads) == ("llama", 96, 2, 2)
    assert (facts.head_dim, facts.eos, facts.rope) == (32, (2,), read_decoder(CONFIG).rope)
    one = llm.build(source, tmp_path / "one", **OPTIONS | {"prompt_tokens": 1})
    assert tokens_of(bundle) == tokens_of(one)


def test_special_tokens_are_in_the_vocabulary_of_the_graph(tmp_path: Path) -> None:
    source = saved(tmp_path / "source", floats(TOKEN))
    config = {key: value for key, value in CONFIG.items() if key != "vocab_size"}
    (source.parent / "config.json").write_text(json.dumps(config))
    ids = {"bos_token_id": -1, "eos_token_id": [2, -5, 96]}
    (source.parent / "generation_config.json").write_text(json.dumps(ids))
    facts = llm.build(source, tmp_path / "bundle", **OPTIONS | {"prompt_tokens": 1}).facts
    assert (facts.bos, facts.eos) == (None, (2,))


def test_weights_of_an_exported_decoder_become_integers(tmp_path: Path) -> None:
    narrow = llm.build(saved(tmp_path / "wide", floats(PROMPT, TOKEN)), tmp_path / "narrow", **OPTIONS)
    source = saved(tmp_path / "source", load(narrow.parts[0]))
    stated = {"weights_bitwidth_of": {"*.down": 16}}
    bundle = llm.build(source, tmp_path / "bundle", **OPTIONS | stated | {"weights": "w4b32"})
    for graph in load(bundle.parts[0]).graphs.values():
        weights = {op.name: op.inputs[1] for op in graph.ops if op.type == "FullyConnected"}
        types = {name: weight.dtype.name for name, weight in weights.items() if weight is not None}
        assert (types["head"], types["layer_1.down"], types["layer_1.up"]) == (
            "sfixed8",
            "float16",
            "sfixed4",
        )
        assert weights["layer_1.up"] is not None
        assert isinstance(weights["layer_1.up"].encoding, BlockScaleOffset)


def test_a_head_of_several_ops_has_the_bits_of_the_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xdlc.llm.network.HEAD_ROWS", 40)
    model = floats(TOKEN)
    (down,) = (op for op in model.main.ops if op.name == "layer_0.down")
    model.main.rename_op(down, "head_of_it")
    options = OPTIONS | {"prompt_tokens": 1, "weights": "w4b32"}
    bundle = llm.build(saved(tmp_path / "source", model), tmp_path / "bundle", **options)
    ops = {op.name: op.inputs[1] for op in load(bundle.parts[0]).main.ops if op.type == "FullyConnected"}
    wide = {name for name, weight in ops.items() if weight is not None and weight.dtype is SFIXED8}
    assert wide == {"head", "head_1", "head_2"}


def test_an_exported_decoder_is_calibrated(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    text = tmp_path / "text.txt"
    text.write_text(" ".join(f"w{token}" for token in np.random.default_rng(0).integers(0, 96, 600)))
    source = saved(tmp_path / "source", floats(PROMPT, TOKEN))
    bundle = llm.build(source, tmp_path / "bundle", **OPTIONS | {"weights": "w4", "text": text})
    (part,) = map(load, bundle.parts)
    for graph in part.graphs.values():
        caches = {tensor.dtype.name for name, tensor in ports(graph).items() if name.startswith("past_")}
        assert caches == {"ufixed8"}
        (head,) = (op for op in graph.ops if op.name == "head")
        assert head.inputs[1] is not None
        assert head.inputs[1].dtype.bits == 8
    assert len(tokens_of(bundle)) == 6


def test_ids_of_64_bits_become_32(tmp_path: Path) -> None:
    model = floats(TOKEN)
    graph, ids = model.main, model.main.tensors["input_ids"]
    narrow = Tensor("narrow_ids", ids.shape, ids.dtype)
    for op in graph.consumers(ids):
        graph.set_inputs(op, [narrow if tensor is ids else tensor for tensor in op.inputs])
    ids.dtype = INT64
    graph.insert_before(graph.ops[0], make_op(graph, "Cast", [ids], [narrow], name="cast"))
    notices: list[str] = []
    options = OPTIONS | {"prompt_tokens": 1}
    bundle = llm.build(
        saved(tmp_path / "source", model), tmp_path / "bundle", notify=notices.append, **options
    )
    (part,) = map(load, bundle.parts)
    assert part.main.tensors["input_ids"].dtype is INT32
    assert "cast" not in {op.name for op in part.main.ops}
    assert [notice for notice in notices if "int64" in notice]


def test_a_file_of_fixed_sizes_has_one_graph(tmp_path: Path) -> None:
    source = saved(tmp_path / "source", floats(PROMPT))
    onnx = source.with_suffix(".onnx")
    xdlc.to_onnx(source, onnx)
    notices: list[str] = []
    fixed = llm.build(onnx, tmp_path / "fixed", notify=notices.append, **OPTIONS)
    assert list(load(fixed.parts[0]).graphs) == ["prompt_ar32_cl128_1_of_1"]
    assert any("no graph of 1 token" in notice for notice in notices)
    assert tokens_of(fixed) == tokens_of(llm.build(source, tmp_path / "stored", **OPTIONS))
    for other in (source, onnx):
        with pytest.raises(UsageError) as refused:
            llm.build(other, tmp_path / "bundle", **OPTIONS | {"context": 64, "prompt_tokens": 16})
        assert "xdlc link" in (refused.value.fix or "")


def test_what_a_file_cannot_be_is_refused(tmp_path: Path) -> None:
    source = saved(tmp_path / "source", floats(TOKEN))
    options = OPTIONS | {"prompt_tokens": 1}
    with pytest.raises(UsageError, match="does not split"):
        llm.build(source, tmp_path / "bundle", **options, splits=2)
    with pytest.raises(UsageError):
        llm.build(source, tmp_path / "bundle", **options | {"context": 256})
    Model(metadata={}).save(tmp_path / "records.dlc")
    with pytest.raises(UsageError, match="no graph, only"):
        llm.build(tmp_path / "records.dlc", tmp_path / "bundle", **options)
    quantized = llm.build(source, tmp_path / "integers", **options | {"weights": "w4b32"})
    with pytest.raises(ModelError, match="quantized"):
        llm.build(saved(tmp_path / "again", load(quantized.parts[0])), tmp_path / "bundle", **options)
    (source.parent / "config.json").write_text(json.dumps(CONFIG | {"partial_rotary_factor": 0.5}))
    with pytest.raises(ModelError, match="rotates 16"):
        llm.build(source, tmp_path / "bundle", **options)
    (source.parent / "config.json").write_text(json.dumps(CONFIG | {"rope_scaling": {"rope_type": "yarn"}}))
    with pytest.raises(UnsupportedOp, match="yarn") as refused:
        llm.build(source, tmp_path / "bundle", **options)
    assert "position_ids" in (refused.value.fix or "")  # exported it is already
    (source.parent / "config.json").unlink()
    with pytest.raises(ModelError, match=r"no config\.json states"):
        llm.build(source, tmp_path / "bundle", **options)
    repeated = floats(TOKEN)
    repeated.main.tensors["past_value_0_out"].shape = (1, 1, 1, 32)
    with pytest.raises(ModelError, match="2 sizes"):
        llm.build(saved(tmp_path / "repeated", repeated), tmp_path / "bundle", **options)
    renamed = floats(TOKEN)
    renamed.main.tensors["logits"].name = "scores"
    with pytest.raises(ConstraintError, match="logits"):
        llm.build(saved(tmp_path / "renamed", renamed), tmp_path / "bundle", **options)
    assert not (tmp_path / "bundle").exists()


def exported(folder: Path, *, least: int = 1) -> tuple[Path, Any]:
    """Return a file of a Llama of transformers with dynamic sizes, and the network."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    keys = {key: value for key, value in CONFIG.items() if key != "model_type"}
    config = transformers.LlamaConfig(**keys, initializer_range=0.2, attn_implementation="eager")
    network = transformers.LlamaForCausalLM(config)
    folder.mkdir()
    runpy.run_path(str(EXAMPLE))["export"](network, folder / "decoder.pt2", least)
    (folder / "tokenizer.json").write_bytes(tokenizer_json())
    return folder / "decoder.pt2", network


def generated(network: Any, count: int) -> list[int]:
    import torch

    with torch.no_grad():
        tokens = network.generate(
            torch.tensor([IDS]), max_new_tokens=count, do_sample=False, eos_token_id=None, pad_token_id=0
        )
    return tokens[0, len(IDS) :].tolist()  # type: ignore[no-any-return]


@pytest.mark.frameworks
def test_a_program_of_torch_gives_both_graphs(tmp_path: Path) -> None:
    path, network = exported(tmp_path / "source")
    bundle = llm.build(path, tmp_path / "bundle", **OPTIONS)
    assert list(load(bundle.parts[0]).graphs) == ["prompt_ar32_cl128_1_of_1", "token_ar1_cl128_1_of_1"]
    assert tokens_of(bundle, count=16) == generated(network, 16)


@pytest.mark.frameworks
def test_a_program_without_single_tokens_has_the_prompt_graph(tmp_path: Path) -> None:
    notices: list[str] = []
    path, network = exported(tmp_path / "source", least=2)
    bundle = llm.build(path, tmp_path / "bundle", notify=notices.append, **OPTIONS)
    assert [notice for notice in notices if "min=1" in notice]
    assert tokens_of(bundle, count=16) == generated(network, 16)


@needs_htp
@pytest.mark.vendor
@pytest.mark.frameworks
def test_the_runtime_generates_with_a_program_of_torch(tmp_path: Path) -> None:
    path, network = exported(tmp_path / "source")
    bundle = llm.build(path, tmp_path / "bundle", **OPTIONS | {"targets": ("sm8650",)})
    assert tokens_of(bundle, "genie", count=16) == generated(network, 16)
