"""Equivalent forms of ops that HTP's library computes wrongly or does not support."""

from __future__ import annotations

from collections.abc import Callable

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.base import graph_pass
from xdlc.registry import import_modules

Form = Callable[[Writer, Op, Tensor], bool]
"""Rewrites an op, whose first input is the tensor, and returns whether it did."""

WRONG, MISSING = "HTP computes this {} wrongly", "HTP does not support this {}"
"""Why an op is replaced; {} is its type."""

_FORMS: dict[tuple[str, str], list[tuple[str, Form]]] = {}
"""Forms with their reasons by package and type of the op, in order of modules."""


def form(*types: str, reason: str = WRONG, package: str = ir.NATIVE_PACKAGE) -> Callable[[Form], Form]:
    """Register a function as an equivalent form of some op types."""

    def register(function: Form) -> Form:
        for type in types:
            _FORMS.setdefault((package, type), []).append((reason.format(type), function))
        return function

    return register


@graph_pass(stage="htp", after=("cast_reinterpreted",))
def avoid_faults(graph: Graph) -> bool:
    """Rewrite ops by their forms for HTP; docs/reference/htp-faults.md lists them."""
    import_modules("xdlc.passes.htp_forms")
    rewritten = [_rewrite(graph, op) for op in list(graph.ops)]
    return any(rewritten)


def _rewrite(graph: Graph, op: Op) -> bool:
    """Apply the first form that fits an op of known shapes; return whether one did."""
    source = op.inputs[0] if op.inputs else None
    tensors = [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    if source is None or any(tensor.dynamic_axes for tensor in tensors):
        return False
    forms = _FORMS.get((op.package, op.type), ())
    return any(rewrite(Writer(graph, op, reason), op, source) for reason, rewrite in forms)
