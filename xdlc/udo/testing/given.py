"""Operands that a user has stated, for the program that creates, executes and releases operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdlc.ir import Scalar, Tensor
from xdlc.ir.quantization import unpacked
from xdlc.udo.generator.samples import Sample
from xdlc.udo.generator.template_context import OperationView, Place
from xdlc.udo.generator.variations import cpu_type
from xdlc.udo.testing.case import Random
from xdlc.udo.testing.prepared import Prepared


@dataclass(frozen=True, slots=True)
class GivenCase:
    """An operation with stated operands.

    Attributes:
        op: The operation.
        what: What is peculiar to the case, any text.
        id: Identifier.
        inputs: By position.
        outputs: By position, with their extents.
        params: Those that are given.
        told: Always, as the extents of the outputs are known.
    """

    op: OperationView
    what: str
    id: str
    inputs: tuple[Sample, ...]
    outputs: tuple[Sample, ...]
    params: tuple[Sample, ...]
    told: bool = True

    @classmethod
    def of(cls, prepared: Prepared, number: int) -> GivenCase:
        """Return the operands of a case of a test; ``number`` tells it from others.

        Raises:
            XdlcError: If nothing tells the shapes of its outputs.
        """
        op, given = prepared.definition, prepared.case
        inputs = tuple(
            _tensor(
                _place(op.inputs, index),
                f"input_{index}",
                tensor,
                isinstance(given.inputs[index], tuple | Random),
            )
            for index, tensor in enumerate(prepared.inputs)
        )
        outputs = tuple(
            Sample(_place(op.outputs, index), f"output_{index}", False, prepared.closed(spec), spec.dtype)
            for index, spec in enumerate(prepared.outputs)
        )
        params = tuple(
            _param(place, prepared.params[place.name], isinstance(given.params[place.name], tuple))
            for place in op.params
            if place.name in prepared.params
        )
        return cls(op, given.name or given.type, f"{op.type}_{number}", inputs, outputs, params)


def _place(places: Sequence[Place], index: int) -> Place:
    return places[min(index, len(places) - 1)]


def _tensor(place: Place, id: str, tensor: Tensor | None, any_data: bool) -> Sample:
    if tensor is None:
        return Sample(place, id, True, (), cpu_type(place))
    data = None if any_data else unpacked(tensor).numpy().tobytes()
    return Sample(place, id, False, tensor.shape, tensor.dtype, data=data)


def _param(place: Place, param: Scalar | Tensor, any_data: bool) -> Sample:
    id = f"param_{place.index}"
    if isinstance(param, Tensor):
        return _tensor(place, id, param, any_data)
    value: Any = param.value
    return Sample(place, id, False, (), cpu_type(place), value)
