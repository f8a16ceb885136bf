from pathlib import Path
from typing import Any

import pytest

from xdlc.cli.report import report
from xdlc.content.inspection import inspect
from xdlc.ir import Graph, Model, Op, Tensor, static
from xdlc.ir.dtype import FLOAT32


def lines_of(model: Model, folder: Path) -> list[str]:
    (folder / "a.dlc").write_bytes(b"x")
    return list(report(inspect(model, folder / "a.dlc"), ops=True, encodings=True, trace=True))


def model_with(name: str) -> Model:
    graph = Graph("main")
    data = graph.add_input(Tensor("x", (1, 1024), FLOAT32))
    weight = graph.add_tensor(static("w", [[0.5] * 1024] * 2))
    result = Tensor("y", (1, 2), FLOAT32)
    graph.append(Op("FullyConnected", [data, weight], [result], name=name))
    graph.add_output(result)
    model = Model()
    model.add_graph(graph)
    return model


@pytest.mark.parametrize(("name", "rows"), [("short", 1), ("long" * 30, 2)])
def test_op_names_leave_room_for_the_figures(tmp_path: Path, name: str, rows: int) -> None:
    lines = lines_of(model_with(name), tmp_path)
    start = next(n for n, line in enumerate(lines) if name[:10] in line)
    head = "\n".join(lines[start : start + rows])
    assert head.endswith("(2.05 k params, 2.05 k MACs)")
    assert name in lines[start]
    assert max(map(len, lines[start + 1 :])) <= 100


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        ({"timestamp": "1980-01-01 00:00:00 UTC"}, "made by    tool"),
        ({"timestamp": "2024-05-06 07:08:09 UTC"}, "made by    tool 2024-05-06 07:08:09 UTC"),
        ({"converterVersion": "2.51", "timestamp": None}, "made by    tool 2.51"),
        ({"args": 5}, "made by    tool"),
    ],
)
def test_history(tmp_path: Path, step: dict[str, Any], shown: str) -> None:
    model = model_with("fc")
    model.metadata["history"] = [{"tool": "tool"} | step]
    lines = lines_of(model, tmp_path)
    assert shown in lines
    assert "container  DLC without a version entry" in lines
