"""Writes out the defaults of inputs that an op leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdlc.converter.custom.issues import Issue
from xdlc.errors import ModelError
from xdlc.ir import Param, Tensor
from xdlc.opdefs.input_defaults import default_inputs
from xdlc.opdefs.model import OpDef
from xdlc.opdefs.op_view import make_view


def filled(
    definition: OpDef, name: str, inputs: Sequence[Tensor | None], params: Mapping[str, Param]
) -> tuple[list[Tensor | None], list[Issue]]:
    """Return the inputs of an op with defaults where some are left out, and which defaults do not fit.

    Args:
        definition: The op's definition.
        name: The op's name.
        inputs: Tensors by position; None for one left out.
        params: Parameters by name.
    """
    try:
        found = default_inputs(definition, make_view(definition, name, inputs, params))
    except ModelError as error:
        return list(inputs), [Issue(error.problem, error.fix or "")]
    for tensor in found.values():
        tensor.name = f"{name}_{tensor.name}"
    count = max([len(inputs), *(at + 1 for at in found)])
    held = [*inputs, *[None] * (count - len(inputs))]
    return [found.get(at, tensor) for at, tensor in enumerate(held)], []
