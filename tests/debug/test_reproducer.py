"""Reproducer: reduction of graphs, and what is written."""

import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper, save

import xdlc
from tests.support.htp_models import needs_htp
from tests.support.onnx_models import residual
from xdlc.cli.tools.debug import WRONG, main
from xdlc.debug.reproducer import part_of, reduced, with_noise, write
from xdlc.errors import BackendError, XdlcError
from xdlc.ir import ArrayData, Model


def _chain(count: int) -> Model:
    """Return a chain of ops, of which the one in the middle is a Tanh."""
    types = ["Tanh" if number == count // 2 else "Sigmoid" for number in range(count)]
    nodes = [
        helper.make_node(type, [f"t{number}"], [f"t{number + 1}"], name=f"op{number}")
        for number, type in enumerate(types)
    ]
    ends = [helper.make_tensor_value_info(name, 1, (1, 8)) for name in ("t0", f"t{count}")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 18)]
    return xdlc.convert(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def test_400_ops_shrink_to_the_bad_one() -> None:
    model = _chain(400)
    bad = list(model.main.ops)[200].name
    result = reduced(model, lambda part, _: any(op.name == bad for op in part.main.ops))
    assert result is not None
    assert [op.name for op in result.model.main.ops] == [bad]
    assert result.trials < 40


def test_two_ops_that_matter_stay() -> None:
    model = _chain(60)
    ops = list(model.main.ops)
    bad = {ops[10].name, ops[50].name}
    result = reduced(model, lambda part, _: bad <= {op.name for op in part.main.ops})
    assert result is not None
    assert {op.name for op in result.model.main.ops} == bad
    assert result.is_least


def test_a_model_that_does_not_show_the_fault_has_no_reproducer() -> None:
    assert reduced(_chain(8), lambda part, _: len(part.main.ops) < 8) is None


def test_part_is_written_and_runs(tmp_path: Path) -> None:
    model = _chain(10)
    part = part_of(model, list(model.main.ops)[3:5])
    feeds = {"t3": np.ones((1, 8), np.float32)}
    paths = write(part, tmp_path / "new", feeds, "htp:sm8650", {})
    assert all(path.is_file() for path in paths)
    assert list(xdlc.run(tmp_path / "new" / "part.dlc", feeds)) == ["t5"]


def test_script_shows_the_fault_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "net.onnx"
    save(residual(), source)
    model = xdlc.convert(source)
    op = next(op for op in model.main.ops if op.name == "dense")
    weight = op.inputs[1]
    assert weight is not None
    weight.data = ArrayData(weight.numpy() * 2)
    folder = tmp_path / "a LIST of DLC's"
    sample = {"x": np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype("f4")}
    assert xdlc.debug(model, [sample], reference=source, reproducer=folder).first_wrong is not None
    assert len(xdlc.load(folder / "part.dlc").main) < len(model.main)
    words = shlex.split((folder / "run.sh").read_text().splitlines()[-1])
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(main, words[1:])
    assert (words[0], result.exit_code) == ("xdlc-debug", WRONG), result.output


def test_noise_is_seeded_and_keeps_the_spread() -> None:
    weights = helper.make_tensor("w", 1, (8, 8), np.arange(64, dtype=np.float32))
    ends = [helper.make_tensor_value_info(name, 1, (1, 8)) for name in "xy"]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [weights])
    opsets = [helper.make_opsetid("", 18)]
    model = xdlc.convert(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    first, second = (
        next(tensor.numpy() for tensor in with_noise(model).main.tensors.values() if tensor.size == 64)
        for _ in range(2)
    )
    assert np.array_equal(first, second)
    assert first.min() >= 0
    assert first.max() <= 63
    assert not set(first.ravel()) & set(range(1, 63))
    assert abs(first.std() - np.arange(64).std()) < 5


def _network(bad: onnx.NodeProto, shape: tuple[int, ...], result: int, count: int) -> Model:
    """Return a network of products, with a node at the end."""
    factors = [
        helper.make_tensor(f"c{number}", 1, [], [1.25 if number % 2 else 0.8]) for number in range(count)
    ]
    nodes = [
        helper.make_node("Mul", [f"t{number}", f"c{number}"], [f"t{number + 1}"], name=f"op{number}")
        for number in range(count)
    ]
    bad.input[0] = f"t{count}"
    ends = helper.make_tensor_value_info("t0", 1, shape), helper.make_tensor_value_info("y", result, None)
    graph = helper.make_graph([*nodes, bad], "g", ends[:1], ends[1:], factors)
    opsets = [helper.make_opsetid("", 18)]
    return xdlc.convert(helper.make_model(graph, opset_imports=opsets, ir_version=10))


@needs_htp
@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "shape", "result", "words"),
    [
        (helper.make_node("Cast", ["x"], ["y"], to=7), (2, 3, 2, 5, 5), 7, "SIGSEGV"),
        (helper.make_node("IsInf", ["x"], ["y"]), (4, 8), 9, "could not create op"),
    ],
    ids=["SIGSEGV", "1002"],
)
def test_what_ends_the_compiler_shrinks_to_a_file_that_does(
    bad: onnx.NodeProto, shape: tuple[int, ...], result: int, words: str, tmp_path: Path
) -> None:
    model, feeds = _network(bad, shape, result, 39), {"t0": np.ones(shape, np.float32)}
    with pytest.raises(BackendError, match=words):
        xdlc.debug(model, [feeds], soc="sm8650", reproducer=tmp_path / "part")
    part = xdlc.load(tmp_path / "part" / "part.dlc")
    assert len(part.main.ops) == 1
    with pytest.raises(XdlcError, match=words):
        xdlc.prepare(part, ["sm8650"])
