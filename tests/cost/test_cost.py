"""Cost of a model on devices, by verb and tool."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import xdlc
from tests.support.htp_models import cnn, needs_htp
from tests.support.onnx_models import build, node
from tests.support.single_ops import op_graph
from xdlc.cli.main import main
from xdlc.cli.tools import cost as tool
from xdlc.content.static_cost import static_cost
from xdlc.cost import device
from xdlc.cost.device import DeviceCost, OpCost
from xdlc.cost.report import CostReport, changes, pairs
from xdlc.cost.schematic import Traffic
from xdlc.errors import BackendError, UsageError
from xdlc.ir import Graph, Model, Tensor, make_op, static, u32
from xdlc.ir import dtype as dt
from xdlc.targets import Soc


def wide(size: int = 512) -> Model:
    """A network that is bound by its matrix."""
    source = Tensor("x", (1, size), dt.FLOAT32)
    values = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    result = Tensor("y", (1, size), dt.FLOAT32)
    graph = op_graph("FullyConnected", [source, static("w", values)], [result], name="fc", graph_name="wide")
    return Model({"wide": graph})


def run_tool(*words: str) -> Result:
    return CliRunner().invoke(tool.main, words)


def test_without_devices_the_arithmetic_is_reported() -> None:
    (cost,) = xdlc.cost(wide()).static
    assert (cost.macs, cost.parameters, cost.weights) == (512**2, 512**2, 4 * 512**2)
    assert cost.ports == cost.peak == 2 * 4 * 512


def test_open_dimensions_are_stated() -> None:
    model = xdlc.convert(build([node("Relu")], {"x": np.zeros((1, 8), "f4")}, None, ["y"], opset=18))
    model.main.inputs[0].dynamic_axes = (0,)
    assert xdlc.cost(model).static[0].open_inputs == ("x",)


@needs_htp
def test_weights_are_read_once_as_halves() -> None:
    (cost,) = xdlc.cost(wide(1024), ["sm8650"]).devices
    assert cost.traffic.dram_read == pytest.approx(2 * 1024**2, rel=0.03)
    assert cost.kernels["HMX"]
    assert cost.dearest(1)[0].op == "fc"
    assert sum(op.traffic.dram for op in cost.ops) == cost.traffic.dram


@needs_htp
def test_floats_of_v68_run_without_the_matrix_unit() -> None:
    old, new = (xdlc.cost(cnn(quantized=False), [soc]).devices[0] for soc in ("sm8350", "sm8650"))
    assert (old.kernels["HMX"], bool(old.notes)) == (0, True)
    assert (new.kernels["HMX"] > 0, bool(new.notes)) == (True, False)


@needs_htp
def test_the_reason_of_a_fused_op_names_the_op_that_computes() -> None:
    (cost,) = xdlc.cost(cnn(quantized=True), ["sm8650"]).devices
    rows = {op.op: op for op in cost.ops}
    assert "'conv2d_conv'" in rows["elementwiseneuron_relu"].reason
    assert "'" not in rows["fullyconnected_y"].reason


@needs_htp
def test_op_that_does_not_compile_is_named() -> None:
    nodes = [node("Relu", "x", "a"), node("Sigmoid", "a", "b"), node("IsInf", "b", "y")]
    model = xdlc.convert(build(nodes, {"x": np.zeros((1, 8), "f4")}, None, ["y"], opset=18))
    with pytest.raises(BackendError) as caught:
        xdlc.cost(model, ["sm8650"])
    assert any(repr(op.name) in caught.value.problem for op in model.main.ops)


@needs_htp
def test_a_reason_names_what_moves_less() -> None:
    """Few channels are padded, and a Transpose of an input can be left out."""
    graph = Graph("g")
    source = graph.add_input(Tensor("x", (1, 3, 64, 64), dt.FLOAT32))
    turned, result = (Tensor(name, (1, 64, 64, 3), dt.FLOAT32) for name in ("turned", "y"))
    order = {"perm": static("perm", np.uint32([0, 2, 3, 1]))}
    graph.append(make_op(graph, "Transpose", [source], [turned], order, name="turn"))
    graph.append(make_op(graph, "ElementWiseNeuron", [turned], [result], {"operation": u32(4)}, name="relu"))
    graph.add_output(result)
    (cost,) = xdlc.cost(Model({"g": graph}), ["sm8650"]).devices
    (reason,) = (op.reason for op in cost.ops if op.op == "turn")
    assert "3 channels use the space of 32" in reason
    assert "desired_input_layout" in reason


@needs_htp
def test_two_runs_have_the_same_figures() -> None:
    first, second = (xdlc.cost(cnn(quantized=True), ["sm8650"], vtcm=[2, 8]) for _ in range(2))
    assert first.as_json() == second.as_json()
    assert [cost.vtcm_mb for cost in first.devices] == [2, 8]
    assert not list(changes(first.devices[0].ops, second.devices[0].ops))


@needs_htp
def test_the_tool_writes_reports_and_keeps_a_budget(tmp_path: Path) -> None:
    path = tmp_path / "net.dlc"
    wide().save(path)
    table, report, page = (tmp_path / f"cost.{form}" for form in ("csv", "json", "html"))
    words = ["-i", str(path), "--soc", "sm8650", "--csv", str(table), "--json", str(report)]
    assert run_tool(*words, "--html", str(page), "--against", str(path)).exit_code == 0
    assert "<title>Cost report: net.dlc</title>" in page.read_text()
    rows = list(csv.DictReader(table.read_text().splitlines()))
    content = json.loads(report.read_text())
    total = content["devices"][0]["totals"]["dram_read"]
    assert sum(int(row["dram_read"]) for row in rows) == total
    assert run_tool(*words, "--max_dram", "1GB").exit_code == 0
    assert run_tool(*words, "--max_dram", "1KB").exit_code == 5


def device_cost(count: int, *, graph: str = "g", soc: str = "sm8650") -> DeviceCost:
    """Return the cost of a graph of equal ops."""
    traffic = Traffic(dram_read=3, vtcm_write=5)
    ops = (
        OpCost(f"op{place}", "Conv2d", (), (), {"HMX": 1}, traffic, 0, 0, 0, 0, "") for place in range(count)
    )
    return DeviceCost(graph, soc, 8, "build", tuple(ops), 0, 0, ())


def test_the_shares_of_a_graph_of_many_ops_are_its_whole() -> None:
    cost = device_cost(5000)
    rows = list(csv.DictReader(CostReport((), (cost,), ("",)).as_csv().splitlines()))
    assert sum(float(row["share"]) for row in rows) == pytest.approx(1)
    assert cost.traffic is cost.traffic  # added up once, not for each op


def test_graphs_of_two_models_are_paired() -> None:
    def report(*graphs: str) -> CostReport:
        static_costs = tuple(static_cost(Graph(name)) for name in graphs)
        devices = tuple(device_cost(1, graph=name) for name in graphs)
        return CostReport(static_costs, devices, ("",) * len(graphs))

    def names(before: CostReport, after: CostReport) -> list[tuple[str | None, ...]]:
        return [tuple(None if cost is None else cost.graph for cost in pair) for pair in pairs(before, after)]

    assert names(report("old"), report("new")) == [("old", "new")]
    assert names(report("a", "b"), report("b")) == [("b", "b"), ("a", None)]


def test_sizes_of_vtcm_need_a_soc() -> None:
    with pytest.raises(UsageError):
        xdlc.cost(wide(8), vtcm=[2])


@pytest.mark.parametrize(
    "words", [("--max_dram", "4MB"), ("--vtcm", "8"), ("--soc", "sm8650", "--vtcm", "x")]
)
def test_wrong_words_are_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    path = tmp_path / "net.dlc"
    wide().save(path)
    assert run_tool("-i", str(path), *words).exit_code == 2


def test_info_and_a_dry_run_show_the_arithmetic(models: Any, tmp_path: Path) -> None:
    source, path = models.save(models.cnn()), tmp_path / "net.dlc"
    xdlc.convert(source).save(path)
    for words in (["info", str(path), "-b"], ["convert", "-i", str(source), "--dry_run"]):
        bare, full = (CliRunner().invoke(main, [*words, *more]) for more in ((), ("--cost",)))
        assert bare.exit_code == full.exit_code == 0
        assert "MACs/byte" in full.stdout.removeprefix(bare.stdout)


@needs_htp
def test_info_shows_what_a_device_moves(tmp_path: Path) -> None:
    path = tmp_path / "net.dlc"
    wide().save(path)
    shown = CliRunner().invoke(main, ["info", str(path), "-b", "--cost", "--device", "sm8650"])
    assert shown.exit_code == 0
    assert "VTCM traffic" in shown.stdout


@pytest.mark.parametrize("words", [("--cost", "--caches"), ("--device", "sm8650")])
def test_words_of_info_that_exclude_each_other(tmp_path: Path, words: tuple[str, ...]) -> None:
    path = tmp_path / "net.dlc"
    wide().save(path)
    assert CliRunner().invoke(main, ["info", str(path), *words]).exit_code == 2


@needs_htp
def test_a_soc_that_the_compiler_refuses_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = device.device_costs

    def costs(model: Model, soc: Soc, *args: Any, **options: Any) -> list[DeviceCost]:
        if soc.name == "sm8350":
            raise BackendError("too large")
        return plain(model, soc, *args, **options)

    monkeypatch.setattr(device, "device_costs", costs)
    model = cnn(quantized=False)
    report = xdlc.cost(model, ["sm8350", "sm8650"])
    assert [cost.soc for cost in report.devices] == ["sm8650"]
    assert [error.problem for error in report.refused] == ["too large"]
    model.save(tmp_path / "net.dlc")
    result = run_tool("-i", str(tmp_path / "net.dlc"), "--soc", "sm8350,sm8650")
    assert (result.exit_code, "sm8650" in result.output) == (7, True)
    with pytest.raises(BackendError):
        xdlc.cost(model, ["sm8350"])
