import csv
from pathlib import Path
from typing import Any

import pytest

import xdlc
from tests.support.commands import invoke
from xdlc.cli.main import main
from xdlc.cli.op_table import COLUMNS
from xdlc.content.inspection import runtimes
from xdlc.content.static_cost import static_cost
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.dtype import FLOAT32


@pytest.fixture
def path(models: Any, tmp_path: Path) -> Path:
    xdlc.convert(models.save(models.cnn())).save(tmp_path / "net.dlc")
    return tmp_path / "net.dlc"


def test_columns_of_the_vendor_under_its_name(path: Path) -> None:
    result = invoke(main, "snpe-dlc-info", "-i", path, "-m", "-s", f"{path}.csv")
    assert f"written: {path}.csv" in result.output
    heads = [line for line in result.output.splitlines() if line.startswith("| Id")]
    assert [cell.strip() for cell in heads[0].strip("|").split("|")] == list(COLUMNS)
    with Path(f"{path}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    model = xdlc.load(path)
    assert [row["Name"] for row in rows] == [op.name for op in model.main.ops]
    counts = [
        line for row in rows for line in row["Parameters"].split("\n") if line.startswith("param count")
    ]
    assert sum(float(line.split("(")[1].rstrip("%)")) for line in counts) == pytest.approx(100, abs=0.1)
    assert "assuming single precision float" in result.output
    conv = next(row for row in rows if row["Type"] == "Conv2d")
    assert {"C", "D", "G"} <= set(conv["Runtimes"].split())


def test_memory_is_the_most_that_lives_at_once() -> None:
    x, a, b, y = (Tensor(name, (1, 100), FLOAT32) for name in "xaby")
    graph = Graph("main")
    graph.add_input(x)
    for source, target in ((x, a), (a, b), (b, y)):
        graph.append(Op("ElementWiseNeuron", [source], [target], {}, name=target.name))
    graph.add_output(y)
    cost = static_cost(graph)
    assert (cost.weights, cost.peak) == (0, 4 * 400)


def test_runtimes_of_other_packages() -> None:
    x, y = Tensor("x", (1, 8), FLOAT32), Tensor("y", (1, 8), FLOAT32)
    assert runtimes(Op("Erf", [x], [y], {}, name="a", package="xdlc")) == "host"
    assert runtimes(Op("Own", [x], [y], {}, name="a", package="Mine")) == "UDO"
    assert runtimes(Op("Unknown", [x], [y], {}, name="a")) == "-"
