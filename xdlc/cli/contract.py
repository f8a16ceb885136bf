"""The input and output contract of a model, and its inserted ops, in a few lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from xdlc.cli import text
from xdlc.cli.inspection import port
from xdlc.ir import HOST_PACKAGE, Model
from xdlc.ir.graph import is_udo
from xdlc.opdefs.control_flow import called

SHOWN_INSERTED = 20
_FORMS = {"float32": " as float32", "native": " native"}


def contract(model: Model, *, recipes: bool = False) -> Iterator[str]:
    """Yield lines that state what each graph takes and gives; with recipes, how its raw files are made."""
    inner = {name for graph in model.graphs.values() for op in graph.ops for name in called(op)}
    for graph in model.graphs.values():
        yield f"graph {text.clean(graph.name)}: {len(graph)} ops"
        if graph.name not in inner:
            inputs = [port(tensor, model.metadata) for tensor in graph.inputs]
            outputs = [port(tensor, model.metadata, reads=True) for tensor in graph.outputs]
            yield "  inputs"
            yield from port_lines(inputs)
            yield "  outputs"
            yield from port_lines(outputs)
            if recipes:
                yield from raw_lines(inputs, outputs)


def raw_lines(inputs: Sequence[dict[str, Any]], outputs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield how to make and read the raw files of a graph, with numpy."""
    rows = [
        (verb, text.clean(held["name"]), form, text.clean(recipe))
        for verb, ports in (("write", inputs), ("read", outputs))
        for held in ports
        for form, recipe in held["raw"].items()
    ]
    if rows:
        yield "  raw files"
        yield from text.columns(rows)


def port_lines(ports: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield one line for each input or output, as ``inspection.port`` gives them."""
    yield from text.columns(
        [
            (
                text.clean(held["name"]),
                held["dtype"],
                text.dims(held["shape"], held.get("symbols", ())),
                ", ".join(filter(None, _notes(held))),
            )
            for held in ports
        ]
    )


def _notes(held: dict[str, Any]) -> Iterator[str]:
    yield text.clean(held.get("layout", ""))
    yield text.encoding(held.get("encoding"))
    sizes = {"float32": held["float_bytes"], "native": held["raw_bytes"]}
    forms = ["float32"] if held["dtype"] == "float32" else list(held["raw"])  # the default first
    unit = " times the open dimensions" if None in held["shape"] else ""
    words = [f"{sizes[form]} bytes{_FORMS[form] if len(forms) > 1 else ''}" for form in forms]
    yield f"raw file {', or '.join(words)}{unit}"


def inserted(model: Model) -> Iterator[str]:
    """Yield lines that name the ops which the source model does not have, and why they are there."""
    rows = [
        (op.type, text.clean(op.name), text.clean(op.origin.reason))
        for graph in model.graphs.values()
        for op in graph.ops
        if op.is_inserted
    ]
    if not rows:
        yield "inserted ops: none"
        return
    yield f"inserted ops: {len(rows)}"
    yield from text.columns(rows[:SHOWN_INSERTED])
    if len(rows) > SHOWN_INSERTED:
        yield f"    and {len(rows) - SHOWN_INSERTED} more; xdlc-info --trace shows all"


def host_only(model: Model) -> Iterator[str]:
    """Yield lines that name the ops which run on the host only, and why."""
    rows = [
        (op.type, text.clean(op.name), text.clean(op.origin.reason or ""))
        for graph in model.graphs.values()
        for op in graph.ops
        if op.package == HOST_PACKAGE
    ]
    if rows:
        yield f"host-only ops: {len(rows)}"
        yield from text.columns(rows[:SHOWN_INSERTED])
        if len(rows) > SHOWN_INSERTED:
            yield f"    and {len(rows) - SHOWN_INSERTED} more; xdlc-info shows all"


def user_defined(model: Model) -> Iterator[str]:
    """Yield a line that counts the ops of users' packages by type."""
    found = Counter(
        f"{op.package}::{op.type}" for graph in model.graphs.values() for op in graph.ops if is_udo(op)
    )
    if found:
        types = ", ".join(f"{text.clean(name)} {number}" for name, number in sorted(found.items()))
        yield f"user-defined ops: {found.total()}: {types}"
