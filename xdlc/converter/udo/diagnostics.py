"""Diagnostics of UDOs: misfits, broken constraints, notices on the model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from xdlc.converter.session.node import bind_dims
from xdlc.errors import ConstraintError, UnsupportedOp, raise_all
from xdlc.ir import Model, Op
from xdlc.ir.graph import is_udo
from xdlc.opdefs.op_params import Issue
from xdlc.opdefs.source_match import Udo, UdoSet
from xdlc.opdefs.verify import UdoVerifier, verify_udos

OPTIONAL = "make it optional in the definition: Mandatory false (xdlc_mandatory in JSON)"


def raise_issues(custom: Udo, issues: Sequence[Issue]) -> None:
    """Raise the issues of a node, if there are any.

    Raises:
        UnsupportedOp: For one; a ProblemList for several.
    """
    stated = f" (from {custom.source})" if custom.source else ""
    raise_all([UnsupportedOp(f"{custom.full_name}{stated}: {text}", fix=fix) for text, fix in issues])


_SHOWN = 10


def notices(model: Model, custom: UdoSet, used: Collection[Udo]) -> Iterator[str]:
    """Yield notices: unused definitions, dynamic dimensions, refusing backends.

    Plugins of installed packages are listed if they match a node, and only then.

    Args:
        custom: All definitions.
        used: Those that match a node.
    """
    used_ids = {id(op) for op in used}
    unused = [op for op in custom.ops if id(op) not in used_ids and not op.installed]
    if unused:
        names = ", ".join([udo.full_name for udo in unused[:_SHOWN]])
        more = f" and {len(unused) - _SHOWN} more" if len(unused) > _SHOWN else ""
        yield f"no op of the model is {names}{more}{_why(model, unused)}"
    for one in custom.ops:
        if one.installed and id(one) in used_ids:
            yield from _installed(model, one)
    verifiers = {
        (one.definition.package, one.definition.name): UdoVerifier(
            one.definition, custom.collections.get(one.definition.package)
        )
        for one in custom.ops
    }
    for graph in model.graphs.values():
        for op in graph.ops:
            if is_udo(op):
                yield from _dynamic_dims(op)
                verifier = verifiers.get((op.package, op.type))
                if verifier is not None:
                    yield from verifier.notices(op)


def _installed(model: Model, custom: Udo) -> Iterator[str]:
    key = (custom.definition.package, custom.definition.name)
    count = sum((op.package, op.type) == key for graph in model.graphs.values() for op in graph.ops)
    if count:
        first, *more = custom.installed
        yield f"{first}; {f'{count} ops are' if count > 1 else '1 op is'} {custom.full_name}"
        yield from more


def _why(model: Model, unused: Sequence[Udo]) -> str:
    """Return why definitions that replace QNN's operations may match none."""
    replacing = any(op.definition.use_default_translation for op in unused)
    inputs = model.main.inputs
    if not replacing or not any(tensor.dynamic_axes for tensor in inputs):
        return ""
    return f"; nodes with dynamic dimensions cannot become QNN ops: {bind_dims()}"


def _dynamic_dims(op: Op) -> Iterator[str]:
    if any(tensor is not None and tensor.dynamic_axes for tensor in op.inputs):
        return
    for tensor in op.outputs:
        if tensor.dynamic_axes:
            yield (
                f"{tensor.name!r}, an output of {op.package}::{op.type}, has unknown dimensions, which "
                "stay dynamic: accelerators cannot run it; add a shape function"
            )


def broken_rules(model: Model, custom: UdoSet) -> list[ConstraintError]:
    """Return breaches of UDOs; a backend's constraint counts if all break theirs."""
    lines = {
        (op.definition.package, op.definition.name): {(): op.source, **op.lines}
        for op in custom.ops
        if op.source
    }
    return verify_udos(model, [op.definition for op in custom.ops], custom.collections, lines)
