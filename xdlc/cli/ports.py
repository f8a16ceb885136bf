"""Lines on a model after its DLC: inputs, outputs, and ops that need a word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xdlc.cli import text
from xdlc.cli.output_path import check_target
from xdlc.cli.tool import written
from xdlc.content.ports import graph_io
from xdlc.ir import HOST_PACKAGE, Model, Op
from xdlc.ir.files import replace_text
from xdlc.ir.graph import is_udo
from xdlc.opdefs.control_flow import called

SHOWN_OPS = 20
_FORMS = {"float32": " as float32", "native": " native"}


def contract(model: Model, *, recipes: bool = False) -> Iterator[str]:
    """Yield lines with inputs and outputs; with recipes, how raw files are made."""
    inner = {name for graph in model.graphs.values() for op in graph.ops for name in called(op)}
    for graph in model.graphs.values():
        yield f"graph {text.clean(graph.name)}: {len(graph)} ops"
        if graph.name not in inner:
            inputs = [graph_io(tensor, model.metadata) for tensor in graph.inputs]
            outputs = [graph_io(tensor, model.metadata, reads=True) for tensor in graph.outputs]
            yield from port_lines(inputs, outputs, recipes=recipes)


def port_lines(
    inputs: Sequence[dict[str, Any]], outputs: Sequence[dict[str, Any]], *, recipes: bool
) -> Iterator[str]:
    """Yield a line for each input and output that ``ports.graph_io`` returns.

    With recipes, lines show how to make and read the raw files, with numpy.
    """
    for title, tensors in (("inputs", inputs), ("outputs", outputs)):
        yield f"  {title}"
        yield from text.columns(
            [
                (
                    text.clean(tensor["name"]),
                    tensor["dtype"],
                    text.dims(tensor["shape"], tensor.get("symbols", ())),
                    ", ".join(filter(None, _notes(tensor))),
                )
                for tensor in tensors
            ]
        )
    rows = [
        (verb, text.clean(tensor["name"]), form, text.clean(recipe))
        for verb, tensors in ((("write", inputs), ("read", outputs)) if recipes else ())
        for tensor in tensors
        for form, recipe in tensor["raw"].items()
    ]
    if rows:
        yield "  raw files"
        yield from text.columns(rows)


def _notes(tensor: dict[str, Any]) -> Iterator[str]:
    yield text.clean(tensor.get("layout", ""))
    yield text.encoding(tensor.get("encoding"))
    sizes = {"float32": tensor["float_bytes"], "native": tensor["raw_bytes"]}
    forms = ["float32"] if tensor["dtype"] == "float32" else list(tensor["raw"])  # the default first
    unit = " times the open dimensions" if None in tensor["shape"] else ""
    words = [f"{sizes[form]} bytes{_FORMS[form] if len(forms) > 1 else ''}" for form in forms]
    yield f"raw file {', or '.join(words)}{unit}"
    if "preprocessing" in tensor:
        yield f"the graph computes {text.clean(tensor['preprocessing'])}"


def inserted(model: Model) -> Iterator[str]:
    """Yield the ops that the source model does not have, each with its reason."""
    yield from _reasons("inserted ops", "--trace ", [op for op in ops_of(model) if op.is_inserted])


def host_only(model: Model) -> Iterator[str]:
    """Yield the ops that run on the host only, with the reason of each."""
    ops = [op for op in ops_of(model) if op.package == HOST_PACKAGE]
    if ops:
        yield from _reasons("host-only ops", "", ops)


def ops_of(model: Model) -> Iterator[Op]:
    """Yield the ops of all graphs."""
    return (op for graph in model.graphs.values() for op in graph.ops)


def _reasons(title: str, flag: str, ops: Sequence[Op]) -> Iterator[str]:
    yield f"{title}: {len(ops) or 'none'}"
    rows = [(op.type, text.clean(op.name), text.clean(op.origin.reason or "")) for op in ops[:SHOWN_OPS]]
    yield from text.columns(rows)
    if len(ops) > SHOWN_OPS:
        yield f"    and {len(ops) - SHOWN_OPS} more; xdlc info {flag}shows all"


def user_defined(model: Model) -> Iterator[str]:
    """Yield a line with the number of UDOs by type."""
    counts = Counter(f"{op.package}::{op.type}" for op in ops_of(model) if is_udo(op))
    if counts:
        types = ", ".join(f"{text.clean(name)} {number}" for name, number in sorted(counts.items()))
        yield f"user-defined ops: {counts.total()}: {types}"


def write_template(model: Model, target: Path, *, has_sections: bool = False) -> None:
    """Write the ``--custom-io`` file of a model, or with sections the ``--config``.

    Args:
        has_sections: Whether it has the sections of ``--config``.

    Raises:
        UsageError: If the target is an input.
        StorageError: If it cannot be written.
    """
    from xdlc.boundary.files import template

    replace_text(check_target(target), template(model, has_sections=has_sections))
    written(target)
