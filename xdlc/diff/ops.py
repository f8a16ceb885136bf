"""Differences of two ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdlc.diff.change import Change, shown_pair
from xdlc.diff.match import GraphMatch
from xdlc.diff.tensors import FEW, data_changes, form_changes
from xdlc.ir import Op, Param, Tensor
from xdlc.opdefs.control_flow import GRAPH_PARAMS, is_control_flow


def op_changes(
    before: Op, after: Op, match: GraphMatch, graphs: Mapping[str, str], *, moved: tuple[int, int] | None
) -> Iterator[Change]:
    """Yield the differences of two ops, without those of their tensors.

    Args:
        before: Op of the first graph.
        after: Its counterpart.
        match: The pairs of tensors of the two graphs.
        graphs: Names of graphs of the second model by those of the first.
        moved: Places of the two ops in the order, if it differs.
    """
    texts = (
        ("op-names", "name", before.name, after.name),
        ("types", "type", before.type, after.type),
        ("packages", "package", before.package, after.package),
        ("origins", "source nodes", _listed(before.origin.nodes), _listed(after.origin.nodes)),
        ("reasons", "reason of insertion", before.origin.reason, after.origin.reason),
    )
    for kind, what, first, second in texts:
        if first != second:
            yield Change(kind, what, first, second)
    if moved:
        yield Change.between("order", "place in the order", moved)
    yield from _inputs(before, after, match)
    if len(before.outputs) != len(after.outputs):
        yield Change("outputs", "outputs", _names(before.outputs), _names(after.outputs))
    yield from _params(before, after, graphs)


def _listed(names: Sequence[str]) -> str | None:
    return ", ".join(names) or None


def _names(tensors: Sequence[Tensor | None]) -> str:
    return ", ".join("none" if tensor is None else repr(tensor.name) for tensor in tensors)


def _inputs(before: Op, after: Op, match: GraphMatch) -> Iterator[Change]:
    if len(before.inputs) != len(after.inputs):
        yield Change("inputs", "inputs", _names(before.inputs), _names(after.inputs))
        return
    for place, (first, second) in enumerate(zip(before.inputs, after.inputs, strict=True)):
        counterpart = None if first is None else match.tensors.get(first)
        if counterpart is not second or (first is None) != (second is None):
            names = [None if tensor is None else tensor.name for tensor in (first, second)]
            yield Change.between("inputs", f"input {place}", names)


def _params(before: Op, after: Op, graphs: Mapping[str, str]) -> Iterator[Change]:
    runs = GRAPH_PARAMS[before.type] if is_control_flow(before) else ()
    for name in before.params | after.params:
        what = f"parameter {name!r}"
        first, second = before.params.get(name), after.params.get(name)
        if isinstance(first, Tensor) and isinstance(second, Tensor):
            yield from _tensor_param(first, second, what, (before.name, after.name))
        elif not _same_scalar(first, second):
            texts = shown_pair(map(_plain, (first, second)))
            is_renamed = name in runs and graphs.get(str(texts[0])) == texts[1]
            if not is_renamed:
                yield Change.between("params", what, texts, _types(first, second))


def _same_scalar(first: Param | None, second: Param | None) -> bool:
    """Return whether two parameters are equal; NaN equals itself, and 0 equals -0."""
    return first == second or repr(first) == repr(second)


def _types(first: Param | None, second: Param | None) -> str | None:
    """Return the data types of two parameters in words, if they differ."""
    if first is None or second is None or first.dtype is second.dtype:
        return None
    return f"data type {first.dtype.name} became {second.dtype.name}"


def _plain(param: Param | None) -> Any:
    """Return a parameter as a value or a list; a large tensor in words."""
    if not isinstance(param, Tensor):
        return None if param is None else param.value
    if param.data is not None and param.size <= FEW:
        return param.tolist()
    return f"{param.dtype.name} of shape {'x'.join(map(str, param.shape)) or 'scalar'}"


def _tensor_param(before: Tensor, after: Tensor, what: str, ops: tuple[str, str]) -> Iterator[Change]:
    suffixes = [tensor.name.removeprefix(op) for tensor, op in zip((before, after), ops, strict=True)]
    if suffixes[0] != suffixes[1]:
        yield Change("tensor-names", f"name of {what}", before.name, after.name)
    for change in form_changes(before, after, what):
        kind = "encodings" if change.kind == "encodings" else "params"
        yield replace(change, kind=kind)
    yield from data_changes(before, after, what, kind="params")
