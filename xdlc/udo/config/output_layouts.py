"""The layout of outputs of which a configuration says nothing."""

from __future__ import annotations

from dataclasses import replace

from xdlc.opdefs.model import OpDef, TensorDef

NHWC = "NHWC"


def with_output_layouts(op: OpDef) -> tuple[OpDef, str]:
    """Return an op whose outputs lie as its inputs do where the definition says nothing, and what to tell.

    The vendor's JSON template states layouts of inputs only, and a kernel that reads channels last writes
    them last.  An output in the order of the source model is of layout ``UNDEFINED``.

    Args:
        op: The definition.

    Example:
        >>> from xdlc.ir.dtype import FLOAT32
        >>> x = TensorDef("x", True, (FLOAT32,), 4, layout="NHWC")
        >>> y = TensorDef("y", True, (FLOAT32,), 4)
        >>> made, told = with_output_layouts(OpDef("Blur", "Filters", (x,), (y,), {}))
        >>> made.outputs[0].layout, told
        ('NHWC', "op 'Blur': output 'y' has no layout: NHWC, as its inputs; UNDEFINED is the model's order")
    """
    fed = [entry for entry in op.inputs if not entry.is_static] or op.inputs
    taken = [entry.name for entry in op.outputs if _is_open(entry)]
    if not taken or {entry.layout for entry in fed if entry.rank in (None, 4)} != {NHWC}:
        return op, ""
    outputs = (replace(entry, layout=NHWC) if _is_open(entry) else entry for entry in op.outputs)
    which = f"output {taken[0]!r} has" if len(taken) == 1 else f"outputs {', '.join(map(repr, taken))} have"
    told = f"op {op.name!r}: {which} no layout: {NHWC}, as its inputs; UNDEFINED is the model's order"
    return replace(op, outputs=tuple(outputs)), told


def _is_open(entry: TensorDef) -> bool:
    return not entry.layout and entry.rank in (None, 4)
