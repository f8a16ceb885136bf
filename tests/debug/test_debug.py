"""Debugger: engines, alignment, reports and the tool."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import helper, save

import xdlc
from tests.support.onnx_models import build, node, residual
from xdlc.cli.tools.debug import WRONG, main
from xdlc.compare.engines import HostEngine, computed
from xdlc.debug.reproducer import RawResults
from xdlc.debug.source import SourceEngine, order_of
from xdlc.errors import BackendError, UsageError, XdlcError
from xdlc.ir import ArrayData, Model

RANDOM = np.random.default_rng(0)
SAMPLE = {"x": RANDOM.standard_normal((1, 3, 8, 8)).astype("f4")}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("debug") / "net.onnx"
    save(residual(), path)
    return path


@pytest.fixture(scope="module")
def model(source: Path) -> Model:
    return xdlc.convert(source)


def _spoiled(model: Model, name: str) -> Model:
    copy = model.clone()
    op = next(op for op in copy.main.ops if op.name == name)
    tensor = op.inputs[1]
    assert tensor is not None
    tensor.data = ArrayData(np.flip(tensor.numpy(), 0).copy())
    return copy


def test_converted_model_agrees_with_its_source(model: Model, source: Path) -> None:
    report = xdlc.debug(model, [SAMPLE], reference=source)
    assert report.first_wrong is None
    assert {"c1", "r1", "c2", "y"} <= {row.tensor for row in report.rows}
    assert all(row.cumulative.db > 100 for row in report.rows)


@pytest.mark.parametrize("name", ["first", "second"])
def test_spoiled_op_is_named_with_its_source_node(model: Model, source: Path, name: str) -> None:
    wrong = xdlc.debug(_spoiled(model, name), [SAMPLE], reference=f"onnx:{source}").first_wrong
    assert wrong is not None
    assert (wrong.op, wrong.nodes) == (name, (name,))


def test_quantized_model_is_compared_with_floats(model: Model) -> None:
    report = xdlc.debug(xdlc.quantize(model, [SAMPLE] * 2), [SAMPLE])
    assert report.reference == "host, floats"
    assert report.first_wrong is None


def test_float_model_needs_a_reference(model: Model) -> None:
    with pytest.raises(UsageError, match="needs a second engine"):
        xdlc.debug(model, [SAMPLE])


def test_missing_framework_has_the_line_that_installs_it(
    model: Model, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        SourceEngine("caffe", str(source), model, SAMPLE)
    assert "pip install" in str(caught.value.fix)


def test_raw_results_are_compared(model: Model, tmp_path: Path) -> None:
    values = HostEngine(model).values(SAMPLE, computed(model.main))
    (tmp_path / "Result_0").mkdir()
    for name, array in values.items():
        array = array * (2 if name == "c2" else 1)
        (tmp_path / "Result_0" / f"{name}.raw").write_bytes(array.astype("<f4").tobytes())
    wrong = xdlc.debug(model, [SAMPLE], reference="cpu", candidate=tmp_path).first_wrong
    assert wrong is not None
    assert wrong.op == "second"


def test_flat_folder_is_of_one_sample(model: Model, tmp_path: Path) -> None:
    (tmp_path / "c1.raw").write_bytes(HostEngine(model).values(SAMPLE, ["c1"])["c1"].tobytes())
    assert xdlc.debug(model, [SAMPLE], reference="cpu", candidate=tmp_path).samples == 1
    with pytest.raises(UsageError, match="no tensor 'c1'"):
        xdlc.debug(model, [SAMPLE] * 2, reference="cpu", candidate=tmp_path)


def test_name_that_no_file_can_have_is_no_raw_file(tmp_path: Path) -> None:
    name = "long" * 100
    node = helper.make_node("Relu", ["x"], [name])
    ends = [helper.make_tensor_value_info(end, 1, (1, 4)) for end in ("x", name)]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 18)]
    model = xdlc.convert(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    with pytest.raises(UsageError, match="no raw file"):
        RawResults(str(tmp_path), model)


@pytest.mark.parametrize(
    "options",
    [
        {"weights": "w.caffemodel"},
        {"soc": "sm8650", "candidate": "cpu"},
        {"noise": True},
        {"soc": "sm8550", "candidate": "htp:sm8650"},
    ],
)
def test_options_without_effect_are_refused(model: Model, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="has no effect"):
        xdlc.debug(model, [SAMPLE], reference="cpu", **options)


def test_raw_results_have_no_reproducer(model: Model, tmp_path: Path) -> None:
    (tmp_path / "c1.raw").write_bytes(HostEngine(model).values(SAMPLE, ["c1"])["c1"].tobytes())
    with pytest.raises(UsageError, match="has no effect"):
        xdlc.debug(model, [SAMPLE], reference="cpu", candidate=tmp_path, reproducer=tmp_path / "part")


def test_dlc_of_another_network_is_no_reference(model: Model, tmp_path: Path) -> None:
    relu = xdlc.convert(
        build([node("Relu", "x", "c1")], {"x": np.zeros((1, 4), "f4")}, None, ["c1"], opset=18)
    )
    relu.save(tmp_path / "other.dlc")
    with pytest.raises(UsageError):
        xdlc.debug(model, [SAMPLE], reference=tmp_path / "other.dlc")


def test_output_without_a_counterpart_is_stated(model: Model, tmp_path: Path) -> None:
    (tmp_path / "c1.raw").write_bytes(HostEngine(model).values(SAMPLE, ["c1"])["c1"].tobytes())
    report = xdlc.debug(model, [SAMPLE], reference="cpu", candidate=tmp_path)
    assert str(report).endswith("  y")


def test_metric_may_return_any_number(model: Model, tmp_path: Path) -> None:
    report = xdlc.debug(
        model,
        [SAMPLE],
        reference="cpu",
        candidate="float",
        metric=lambda first, second: (first - second).max(),
    )
    report.write(tmp_path / "report.json")
    content = json.loads((tmp_path / "report.json").read_text())
    assert {tensor["cumulative"]["custom"] for tensor in content["tensors"]} == {0}


@pytest.mark.parametrize(
    ("metric", "error"), [(lambda *_: 1 / 0, BackendError), (lambda *_: "much", UsageError)]
)
def test_metric_that_fails_is_an_error(model: Model, metric: Any, error: type[XdlcError]) -> None:
    with pytest.raises(error):
        xdlc.debug(model, [SAMPLE], reference="cpu", candidate="float", metric=metric)


def test_raw_file_of_another_size_is_refused(model: Model, tmp_path: Path) -> None:
    (tmp_path / "c1.raw").write_bytes(b"abcd")
    with pytest.raises(UsageError, match="4 bytes"):
        xdlc.debug(model, [SAMPLE], reference="cpu", candidate=tmp_path)


@pytest.mark.parametrize(
    ("source_shape", "target", "is_turned", "order"),
    [
        ((1, 8, 8, 8), (1, 8, 8, 8), True, (0, 2, 3, 1)),
        ((1, 8, 8, 8), (1, 8, 8, 8), False, None),
        ((1, 3, 4, 5), (1, 4, 5, 3), False, (0, 2, 3, 1)),
        ((4, 1), (4,), False, None),
    ],
)
def test_order_of_axes(
    source_shape: tuple[int, ...], target: tuple[int, ...], is_turned: bool, order: tuple[int, ...] | None
) -> None:
    assert order_of(source_shape, target, is_turned) == (True, order)


def test_other_shape_has_no_order() -> None:
    assert not order_of((1, 3, 4), (1, 5, 4), False)[0]


def test_tool_writes_a_report_and_exits_with_five(model: Model, source: Path, tmp_path: Path) -> None:
    dlc, raw, listing = tmp_path / "net.dlc", tmp_path / "x.raw", tmp_path / "list.txt"
    _spoiled(model, "second").save(dlc)
    raw.write_bytes(SAMPLE["x"].tobytes())
    listing.write_text(f"{raw}\n")
    report = tmp_path / "report.json"
    words = ["-i", dlc, "--input_list", listing, "--reference", source, "--report", report]
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == WRONG, result.output
    assert "first wrong op: second" in result.output
    content = json.loads(report.read_text())
    assert content["first_wrong"] == "c2"
    assert len(content["tensors"]) > 3
