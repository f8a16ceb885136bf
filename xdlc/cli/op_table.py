"""Table of ops in the columns of snpe-dlc-info, and an estimate of memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from xdlc.cli import text
from xdlc.content.inspection import RUNTIMES, runtimes
from xdlc.content.static_cost import static_cost
from xdlc.errors import XdlcError
from xdlc.ir import NATIVE_PACKAGE, Graph, Model, Op
from xdlc.ir.files import csv_text

COLUMNS = ("Id", "Name", "Type", "Inputs", "Outputs", "Out Dims", "Runtimes", "Parameters")
_LEAST = 12
_Row = tuple[str, ...]


def rows(model: Model, found: dict[str, Any]) -> Iterator[tuple[str, list[_Row]]]:
    """Yield each graph's name with its rows; a cell may have several lines.

    Args:
        found: What ``inspection.inspect`` returned for it.
    """
    translated = _of_layers(model)
    for graph, held in zip(model.graphs.values(), found["graphs"], strict=True):
        pairs = zip(graph.ops, held["ops"], strict=True)
        yield (
            held["name"],
            [_row(op, one, held["totals"], translated.get(op.name)) for op, one in pairs],
        )


def _of_layers(model: Model) -> dict[str, str]:
    """Return the runtimes that support all ops of an SNPE 1 layer, by layer."""
    from xdlc import api
    from xdlc.converter.snpe.translate import has_layers

    by_layer: dict[str, set[str]] = {}
    if has_layers(model):
        with suppress(XdlcError):  # info shows what cannot run too
            for op in api.executable(model).main.ops:
                for node in op.origin.nodes:
                    letters = set(runtimes(op).split())
                    by_layer[node] = by_layer.get(node, letters) & letters
    return {
        node: " ".join(runtime for runtime in RUNTIMES if runtime in letters)
        for node, letters in by_layer.items()
    }


def _row(op: Op, record: dict[str, Any], totals: dict[str, Any], letters: str | None) -> _Row:
    package = "" if op.package == NATIVE_PACKAGE else f"{record['package']}::"
    shares = [
        f"{title}: {record[key]} ({100 * record[key] / max(totals[key], 1):.3g}%)"
        for title, key in (("param count", "parameters"), ("MACs per inference", "macs"))
        if record[key]
    ]
    named = record.get("enumerators", {})
    values = [
        f"{name}: {text.param(value)}" + (f" ({named[name]})" if name in named else "")
        for name, value in record["params"].items()
    ]
    codes = [
        f"{tensor['name']}: {text.encoding(tensor['encoding'])}"
        for tensor in (*record["inputs"], *record["outputs"])
        if tensor is not None and "encoding" in tensor
    ]
    cells = (
        ["-" if record["id"] is None else str(record["id"])],
        [record["name"]],
        [package + record["type"]],
        [_tensor(tensor) for tensor in record["inputs"]],
        [_tensor(tensor) for tensor in record["outputs"]],
        [text.dims(tensor["shape"]) for tensor in record["outputs"]],
        [runtimes(op) if letters is None else letters or "-"],
        [*values, *codes, *shares],
    )
    return tuple("\n".join(map(text.clean, cell)) for cell in cells)


def _tensor(tensor: dict[str, Any] | None) -> str:
    if tensor is None:
        return "(omitted)"
    return f"{tensor['name']} ({tensor['dtype']} {text.dims(tensor['shape'])} {tensor['role']})"


def lines(body: Sequence[_Row], totals: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a table, and the vendor's totals.

    Cells are wrapped on a terminal; elsewhere the table is as wide as they are.
    """
    table = [[cell.split("\n") for cell in row] for row in (COLUMNS, *body)]
    widths = _widths(table)
    if sys.stdout.isatty():
        while sum(widths) + 3 * len(widths) + 1 > text.width() and max(widths) > _LEAST:
            widths[widths.index(max(widths))] -= 1
        table = [[text.folded("\n".join(cell), widths[i]) for i, cell in enumerate(row)] for row in table]
        widths = _widths(table)  # words stay whole
    rule = "-" * (sum(widths) + 3 * len(widths) + 1)
    for row in table:
        yield rule
        for number in range(max(map(len, row))):
            parts = [cell[number] if number < len(cell) else "" for cell in row]
            yield "| " + " | ".join(f"{part:<{widths[i]}}" for i, part in enumerate(parts)) + " |"
    yield rule
    megabytes = 4 * totals["parameters"] / 1e6
    yield f"Total parameters: {totals['parameters']} ({megabytes:.3g} MB assuming single precision float)"
    yield f"Total MACs per inference: {totals['macs']}"


def _widths(table: Sequence[Sequence[Sequence[str]]]) -> list[int]:
    return [max(len(line) for row in table for line in (*row[i], "")) for i in range(len(COLUMNS))]


def as_csv(model: Model, found: dict[str, Any]) -> str:
    """Return the rows of all graphs as CSV, each with the graph's name first."""
    tables = [[(name, *row) for row in given] for name, given in rows(model, found)]
    return csv_text([("Graph", *COLUMNS), *(row for table in tables for row in table)])


def memory_line(graph: Graph) -> str:
    """Return the estimate in words."""
    cost = static_cost(graph)
    parts = f"{text.size(cost.weights)} of weights, {text.size(cost.peak)} of other tensors at the peak"
    return f"{text.size(cost.weights + cost.peak)}: {parts}"
