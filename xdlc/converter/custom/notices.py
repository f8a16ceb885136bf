"""What users should know of their operations in a converted model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from xdlc.converter.custom.issues import full_name
from xdlc.ir import Model, Op
from xdlc.ir.graph import is_custom
from xdlc.opdefs.backend_rules import backend_notices
from xdlc.opdefs.source_match import Udo, UdoSet

_SHOWN = 10


def notices(model: Model, custom: UdoSet, used: Collection[Udo]) -> Iterator[str]:
    """Yield a line for definitions that nothing of the model came to, open extents, backends that refuse.

    Plugins of installed packages are told of if something came to them, and only then.

    Args:
        model: The converted model.
        custom: All definitions.
        used: Those that stand for something.
    """
    used_ids = {id(op) for op in used}
    unused = [op for op in custom.ops if id(op) not in used_ids and not op.installed]
    if unused:
        names = ", ".join(map(full_name, unused[:_SHOWN]))
        more = f" and {len(unused) - _SHOWN} more" if len(unused) > _SHOWN else ""
        yield f"no op of the model is {names}{more}{_why(model, unused)}"
    for one in custom.ops:
        if one.installed and id(one) in used_ids:
            yield from _installed(model, one)
    known = {(one.definition.package, one.definition.name): one.definition for one in custom.ops}
    for graph in model.graphs.values():
        for op in graph.ops:
            if is_custom(op):
                yield from _open_extents(op)
                definition = known.get((op.package, op.type))
                if definition is not None:
                    yield from backend_notices(op, definition, custom.collections.get(op.package))


def _installed(model: Model, custom: Udo) -> Iterator[str]:
    key = (custom.definition.package, custom.definition.name)
    count = sum((op.package, op.type) == key for graph in model.graphs.values() for op in graph.ops)
    if count:
        first, *more = custom.installed
        yield f"{first}; {f'{count} ops are' if count > 1 else '1 op is'} {full_name(custom)}"
        yield from more


def _why(model: Model, unused: Sequence[Udo]) -> str:
    """Return why definitions that replace operations of QNN may have found none, if that is known."""
    replacing = any(op.definition.use_default_translation for op in unused)
    inputs = model.main.inputs
    if not replacing or not any(tensor.dynamic_axes for tensor in inputs):
        return ""
    return "; nodes with open extents become no operation of QNN: bind them with --input_dim"


def _open_extents(op: Op) -> Iterator[str]:
    if any(tensor is not None and tensor.dynamic_axes for tensor in op.inputs):
        return
    for tensor in op.outputs:
        if tensor.dynamic_axes:
            yield (
                f"nothing states the extents of {tensor.name!r}, which {op.package}::{op.type} gives: they "
                "stay open, which accelerators do not take; a shape function would tell them"
            )
