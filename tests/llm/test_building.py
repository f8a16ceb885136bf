"""Bundles from folders of checkpoints."""

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.llm.checkpoint.test_safetensors import safetensors
from tests.support.bundles import tokenizer_json
from tests.support.decoders import config_of, random_weights
from tests.support.htp_models import needs_htp
from xdlc import llm
from xdlc.container import load
from xdlc.errors import UsageError
from xdlc.ir import BlockScaleOffset, BlockwiseExpansion, ScaleOffset, Tensor
from xdlc.ir.dtype import SFIXED4
from xdlc.ir.files import kept_apart
from xdlc.llm import building, sources
from xdlc.llm.building import Progress
from xdlc.llm.bundle import Bundle, read_bundle
from xdlc.llm.decoder import read_decoder
from xdlc.llm.forms import FORMS
from xdlc.llm.genai import CONFIG
from xdlc.llm.layout import MASK, Length, graphs_of
from xdlc.llm.network import MASKED
from xdlc.llm.readme import weight_bytes
from xdlc.llm.running import opened
from xdlc.options.language_models import WEIGHTS

KEYS = {"hidden_size": 64, "head_dim": 32, "intermediate_size": 96, "max_position_embeddings": 128}
SIZES: dict[str, Any] = {"context": 128, "prompt_tokens": 32}


def folder_of(place: Path, family: str = "llama", **keys: Any) -> Path:
    """Write a folder of Hugging Face with random weights."""
    config = config_of(family, **(KEYS | keys if family != "gpt2" else keys))
    tensors = {name: weight.data.numpy() for name, weight in random_weights(read_decoder(config)).items()}
    place.mkdir(parents=True, exist_ok=True)
    (place / "model.safetensors").write_bytes(safetensors(tensors))
    (place / "config.json").write_text(json.dumps({**config, "bos_token_id": 1, "eos_token_id": 2}))
    (place / "tokenizer.json").write_bytes(tokenizer_json())
    return place


def text_of(place: Path) -> Path:
    """Write a text to calibrate with."""
    pytest.importorskip("tokenizers")
    text = place / "text.txt"
    text.write_text(" ".join(f"w{token}" for token in np.random.default_rng(0).integers(0, 96, 600)))
    return text


def weights_of(bundle: Bundle) -> dict[str, Tensor]:
    """Return the weights of the linear maps of a bundle of one part."""
    (part,) = bundle.parts
    ops = [op for op in load(part).main.ops if op.type in ("FullyConnected", "Conv2d")]
    return {op.name: weight for op in ops if (weight := op.inputs[1]) is not None}


def tokens_of(bundle: Bundle, engine: str = "host", count: int = 6) -> list[int]:
    with opened(bundle, engine) as ask:
        return list(ask([1, 5, 17, 80, 3], count))


def test_options_name_all_forms() -> None:
    assert set(WEIGHTS) == set(FORMS)


def test_a_folder_becomes_a_bundle(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "source")
    written = llm.build(source, tmp_path / "bundle", targets=(), weights="fp16", splits=2, **SIZES)
    bundle = read_bundle(written.folder)
    assert [list(load(part).graphs) for part in bundle.parts] == [
        [f"prompt_ar32_cl128_{part}_of_2", f"token_ar1_cl128_{part}_of_2"] for part in (1, 2)
    ]
    assert (bundle.facts.bos, bundle.facts.eos, bundle.facts.kv_bits) == (None, (2,), 16)
    whole = llm.build(source, tmp_path / "whole", targets=(), weights="fp16", **SIZES)
    assert tokens_of(bundle) == tokens_of(whole)


def test_graphs_of_several_contexts_have_one_set_of_encodings(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    source, text = folder_of(tmp_path / "source", num_hidden_layers=1), tmp_path / "text.txt"
    text.write_text("w1 w2 w3 w4 w5 w6 w7 " * 40)
    options: dict[str, Any] = {"targets": (), "weights": "w8", "text": text}
    bundle = llm.build(source, tmp_path / "bundle", **options, **{**SIZES, "context": (80, 128, 80)})
    assert (bundle.facts.context, bundle.facts.shorter_contexts) == (128, (80,))
    (part,) = map(load, bundle.parts)
    assert set(graphs_of(part)) == {Length(tokens, span) for tokens in (32, 1) for span in (128, 80)}
    assert len({repr(graph.tensors["attention_mask"].encoding) for graph in part.graphs.values()}) == 1
    whole = llm.build(source, tmp_path / "whole", **options, **SIZES)
    assert tokens_of(bundle, count=90) == tokens_of(whole, count=90)


def test_weights_of_4_bits_stay_integers(tmp_path: Path) -> None:
    bundle = llm.build(folder_of(tmp_path / "source"), tmp_path / "bundle", targets=(), **SIZES)
    weights = weights_of(bundle)
    assert all(isinstance(weight.encoding, BlockScaleOffset) for weight in weights.values())
    assert weights.pop("head").dtype.name == "sfixed8"
    assert {weight.dtype.name for weight in weights.values()} == {"sfixed4"}
    assert len(tokens_of(bundle)) == 6


@pytest.mark.parametrize("weights", ["w4b32", "w4"])
def test_linear_maps_have_bits_of_their_own(tmp_path: Path, weights: str) -> None:
    source, text = folder_of(tmp_path / "source"), text_of(tmp_path)
    options: dict[str, Any] = {
        "weights": weights,
        "text": text,
        "weights_bitwidth_of": {"*.down": 8, "head": 4},
    }
    bundle = llm.build(source, tmp_path / "bundle", targets=(), **options, **SIZES)
    narrow = {
        name
        for name, weight in weights_of(bundle).items()
        if weight.dtype is SFIXED4 or isinstance(weight.encoding, BlockwiseExpansion)
    }
    assert "head" in narrow
    assert set(weights_of(bundle)) - narrow == {"layer_0.down", "layer_1.down"}
    sizes = [weight.size / (2 if name in narrow else 1) for name, weight in weights_of(bundle).items()]
    (part,) = bundle.parts
    assert 1 < weight_bytes(load(part).main) / sum(sizes) < 1.3  # with scales, biases and norms


def test_a_build_goes_on_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, place = folder_of(tmp_path / "source"), tmp_path / "bundle"
    options: dict[str, Any] = {"targets": (), "weights": "fp16", "splits": 2, **SIZES}

    def interrupted(*_args: Any, **_options: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(building, "write_bundle", interrupted)
        with pytest.raises(KeyboardInterrupt):
            llm.build(source, place, **options)
    stamps = {path: path.stat().st_mtime_ns for path in place.glob("*.dlc")}
    assert len(stamps) == 2
    llm.build(source, place, **options)
    assert {path: path.stat().st_mtime_ns for path in place.glob("*.dlc")} == stamps
    llm.build(source, place, **{**options, "splits": 1})
    assert [path.name for path in place.glob("*.dlc")] == ["decoder_1_of_1.dlc"]


def test_a_build_with_another_text_or_other_caches_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tokenizers")
    source, place, stamps = (
        folder_of(tmp_path / "source", num_hidden_layers=1),
        tmp_path / "bundle",
        set[int](),
    )
    monkeypatch.setattr(building, "write_bundle", lambda *_args, **_options: 1 / 0)
    for kv, text in ((8, "a"), (16, "a"), (16, "b")):
        path = tmp_path / text
        if not path.exists():
            path.write_text("w1 w2 w3 w4 " * 40)
        with pytest.raises(ZeroDivisionError):
            llm.build(source, place, targets=(), weights="w8", kv=kv, text=path, **SIZES)
        stamps.add((place / "decoder_1_of_1.dlc").stat().st_mtime_ns)
    assert len(stamps) == 3


def test_parts_that_wait_are_not_compiled_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, files = folder_of(tmp_path / "source"), list[str]()

    def failing(_part: Path, _soc: str, file: Path, **_options: Any) -> None:
        files.append(file.parent.name)
        raise UsageError("no")

    monkeypatch.setattr(building, "compile_part", failing)
    with pytest.raises(UsageError, match="no"):
        llm.build(source, tmp_path / "bundle", targets=("SM8650", "57"), weights="fp16", splits=2, **SIZES)
    assert files == ["sm8650"]


def test_notices_of_compiling_come_in_the_thread_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, threads = folder_of(tmp_path / "source"), list[tuple[str, int]]()

    def compiled(_part: Path, _soc: str, file: Path, *, notify: Any, **_options: Any) -> None:
        file.write_bytes(b"binary")
        notify("slow")

    monkeypatch.setattr(building, "compile_part", compiled)
    llm.build(
        source,
        tmp_path / "bundle",
        weights="fp16",
        verify=False,
        notify=lambda text: threads.append((text, threading.get_ident())),
        **SIZES,
    )
    assert threads == [("sm8650/decoder_1_of_1.bin: slow", threading.get_ident())]


@pytest.mark.parametrize("has_tokenizer", [True, False])
def test_a_tokenizer_decides_on_the_first_token(tmp_path: Path, has_tokenizer: bool) -> None:
    source = folder_of(tmp_path / "source")
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "w1", "type_id": 0}}]}
    content = json.loads(tokenizer_json()) | {
        "post_processor": {"type": "Sequence", "processors": [template]}
    }
    if has_tokenizer:
        (source / "tokenizer.json").write_text(json.dumps(content))
    else:
        (source / "tokenizer.json").unlink()
    bundle = llm.build(source, tmp_path / "bundle", targets=(), weights="fp16", **SIZES)
    assert bundle.facts.bos == 1


@pytest.mark.parametrize(("weights", "algorithms"), [("w8", ()), ("w4", ("adaround",))])
def test_activations_are_calibrated_along_a_text(
    tmp_path: Path, weights: str, algorithms: tuple[str, ...]
) -> None:
    source = folder_of(tmp_path / "source")
    options: dict[str, Any] = {
        "weights": weights,
        "text": text_of(tmp_path),
        "algorithms": algorithms,
        "splits": 2,
    }
    bundle = llm.build(source, tmp_path / "bundle", targets=(), **options, **SIZES)
    first, second = (load(part) for part in bundle.parts)
    caches = {tensor.dtype.name for tensor in first.main.inputs if tensor.name.startswith("past_")}
    assert caches == {"ufixed8"}
    for name in ("hidden_1", MASK):
        assert first.main.tensors[name].encoding == second.main.tensors[name].encoding
    mask = second.main.tensors[MASK].encoding
    assert isinstance(mask, ScaleOffset)
    assert mask.scale * mask.offset == pytest.approx(MASKED)  # whatever the scores of the first part
    assert len(tokens_of(bundle)) == 6


def test_a_head_of_8_bits_may_be_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PART_BYTES", 1)
    options: dict[str, Any] = {"weights": "w4", "text": text_of(tmp_path)}
    bundle = llm.build(folder_of(tmp_path / "source"), tmp_path / "bundle", targets=(), **options, **SIZES)
    *layers, head = bundle.parts
    assert len(layers) == 2
    assert [op.name for op in load(head).main.ops if op.type in ("Conv2d", "FullyConnected")] == ["head"]
    assert len(tokens_of(bundle)) == 6


@pytest.mark.parametrize(
    "options",
    [
        {"weights": "w3"},
        {"weights": "w8"},
        {"kv": 8},
        {"kv": 4},
        {"context": 129},
        {"context": (129, 64)},
        {"context": (128, 32)},
        {"context": ()},
        {"prompt_tokens": 128},
        {"splits": 3},
        {"algorithms": ("adaround",)},
        {"algorithms": "adaround"},
        {"algorithms": ("smoothquant",), "weights": "w8", "text": "none"},
        {"weights_bitwidth_of": {"layer_9.down": 8}},
        {"weights_bitwidth_of": {"head": 5}},
        {"weights": "fp16", "weights_bitwidth_of": {"head": 8}},
        {"splits": "many"},
        {"targets": ("sm9999",)},
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    source = folder_of(tmp_path / "source")
    with pytest.raises(UsageError):
        llm.build(source, tmp_path / "bundle", **{"targets": (), **SIZES, **options})
    assert not list((tmp_path / "bundle").glob("*.dlc"))


@needs_htp
@pytest.mark.vendor
@pytest.mark.parametrize(
    ("family", "weights"), [("llama", "w4b32"), ("gpt2", "fp16"), ("gemma3_text", "fp16")]
)
def test_context_binaries_are_verified_and_run(tmp_path: Path, family: str, weights: str) -> None:
    keys = {"n_embd": 128, "n_positions": 128} if family == "gpt2" else {}
    source = folder_of(tmp_path / "source", family, **keys)
    bundle = llm.build(source, tmp_path / "bundle", weights=weights, **SIZES)
    assert len(bundle.facts.checks) == 2
    assert bundle.targets["sm8650"].is_shared
    assert tokens_of(bundle, "genie") == tokens_of(bundle, "htp") == tokens_of(bundle)


def test_the_state_of_a_build_is_read_and_replaced_in_one_call(tmp_path: Path) -> None:
    with kept_apart(()):
        for _ in range(2):
            Progress(tmp_path, "same").note(tmp_path / "soc" / "a.bin", "checked")
        assert Progress(tmp_path, "same").checks == ("checked",)


def test_another_build_removes_the_files_of_a_bundle_alone(tmp_path: Path) -> None:
    for place in ("soc", "model"):
        (tmp_path / place).mkdir()
        (tmp_path / place / CONFIG).write_text("{}")
    (tmp_path / "soc" / "decoder_1_of_1.bin").write_bytes(b"")
    Progress(tmp_path, "new")
    assert [path.parent.name for path in tmp_path.glob("*/*")] == ["model"]
