"""Encoders of texts in the vendor's runtime, beside the host."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import xdlc
from tests.support.bundles import tokenizer_json
from tests.support.commands import invoke
from tests.support.htp_models import needs_htp
from xdlc.cli.tools import llm
from xdlc.errors import ConstraintError, UsageError, XdlcError, each_problem
from xdlc.ir import Model, Tensor
from xdlc.ir import dtype as dt
from xdlc.llm.encoder import check_encoder, embedding

TOKENS, SIZE, VOCAB = 32, 64, 96
TEXT = "w5 w17 w80 w3 w42"


@pytest.fixture(scope="module")
def encoder() -> Model:
    """Return the mean of layers over embeddings of tokens, types and positions."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    ids = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
    weights = {
        "words": rng.standard_normal((VOCAB, SIZE)),
        "types": rng.standard_normal((2, SIZE)),
        "places": rng.standard_normal((TOKENS, SIZE)),
        "map": rng.standard_normal((SIZE, SIZE)) / 8,
        "first": np.array([2]),
        "middle": np.array([1]),
    }
    lines = [
        ("Gather", "words", "input_ids", "a"),
        ("Gather", "types", "token_type_ids", "b"),
        ("Gather", "places", "position_ids", "c"),
        ("Add", "a", "b", "d"),
        ("Add", "d", "c", "e"),
        ("MatMul", "e", "map", "f"),
        ("Tanh", "f", "g"),
        ("Cast", "attention_mask", "h"),
        ("Unsqueeze", "h", "first", "i"),
        ("Mul", "g", "i", "j"),
        ("ReduceSum", "j", "middle", "k"),
        ("ReduceSum", "i", "middle", "l"),
        ("Div", "k", "l", "pooled_output"),
    ]
    more = {"Cast": {"to": TensorProto.FLOAT}, "ReduceSum": {"keepdims": 0}}
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, [output], **more.get(kind, {})) for kind, *inputs, output in lines],
        "encoder",
        [helper.make_tensor_value_info(name, TensorProto.INT32, [1, TOKENS]) for name in ids],
        [helper.make_tensor_value_info("pooled_output", TensorProto.FLOAT, [1, SIZE])],
        [
            numpy_helper.from_array(array.astype("int64" if array.dtype.kind == "i" else "float32"), name)
            for name, array in weights.items()
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    return xdlc.convert(helper.make_model(graph, opset_imports=opset, ir_version=9))


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    path.write_bytes(tokenizer_json())
    return path


def renamed(old: str, new: str) -> Callable[[Model], None]:
    return lambda model: model.main.rename(model.main.tensors[old], new)


def widened(model: Model) -> None:
    model.main.tensors["attention_mask"].dtype = dt.FLOAT32


def more(model: Model) -> None:
    model.main.add_input(Tensor(name="length", dtype=dt.INT32, shape=(1,)))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (more, "length"),
        (renamed("token_type_ids", "types_of"), "token_type_ids"),
        (renamed("pooled_output", "embedding"), "pooled_output"),
        (renamed("position_ids", "positions"), "position_ids"),
        (widened, "attention_mask"),
    ],
)
def test_an_encoder_with_a_fault_is_refused(
    encoder: Model, change: Callable[[Model], None], place: str
) -> None:
    model = encoder.clone()
    assert check_encoder(model) == (TOKENS, SIZE)
    change(model)
    with pytest.raises(XdlcError) as caught:
        check_encoder(model)
    problems = each_problem(caught.value)
    assert len(problems) == 1
    assert isinstance(problems[0], ConstraintError)
    assert place in str(problems[0])


@needs_htp
@pytest.mark.frameworks
@pytest.mark.slow
def test_the_runtime_computes_the_embedding_of_the_host(
    encoder: Model, tokenizer: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "bundle"
    encoder.save(tmp_path / "encoder.dlc")
    words = ["encoder", str(tmp_path / "encoder.dlc"), "-o", str(folder), "--tokenizer", str(tokenizer)]
    invoke(llm.main, *words)
    host, runtime = np.array(embedding(folder, TEXT)), np.array(embedding(folder, TEXT, soc="sm8650"))
    assert host.shape == (SIZE,)
    assert host @ runtime / np.linalg.norm(host) / np.linalg.norm(runtime) > 0.9999
    printed = CliRunner().invoke(llm.main, ["embed", str(folder), "--prompt", TEXT]).stdout
    np.testing.assert_allclose([float(word) for word in printed.split()], host, rtol=1e-4)
    with pytest.raises(UsageError):
        embedding(folder, TEXT, soc="sm8550")
