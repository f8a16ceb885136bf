"""Traits of op types that passes, quantizer and cost models query."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from xdlc.ir import HOST_PACKAGE, NATIVE_PACKAGE, Op
from xdlc.opdefs.elementwise_enums import BINARY, NEURON, UNARY
from xdlc.records import record

_DATA = Path(__file__).parent / "data" / "traits.toml"
_ALL_INPUTS = tuple(range(1 << 10))
_PACKAGES = {"native": NATIVE_PACKAGE, "host": HOST_PACKAGE, "snpe": "snpe"}


@record(frozen=True)
class Traits:
    """Properties of an op type, or of one operation of ElementWiseBinary and the like.

    Attributes:
        view: Results have the elements of input 0, in their order or with axes permuted.
        copies: Only moves or copies elements, which costs no arithmetic.
        selects: Elements of the results are elements of input 0.
        gathers: Inputs whose elements all reach output 0 unchanged, like those of Concat.
        fills: Adds elements of its own, zeros or a constant, to those that it selects.
        elementwise: Computes each element of its result from one of each input.
        activation: Activation function that decides how HTP rounds the 8-bit product before it.
        clamps: Only clips values.
        flat_below: Saturates for negative inputs, without an end at a number.
        squashes: Outputs probabilities, of which the largest are insensitive to noise of the input.
        steep_at_zero: Small inputs need small steps.
        monotone: Inputs with which the result grows or falls.
        adds: Result is a sum or a mean of inputs.
        pool: Kind of pooling: ``max``, ``average`` or ``l2``; else empty.
        norm: Normalizes; input 1 is a factor per channel.
        norm_step: Operation that a normalization consists of where it is written out.
        recodes: Converts to or from fixed point, or between two encodings.
        macs: Kind of product: ``convolution``, ``transposed``, ``dense`` or ``matmul``; else empty.
        fuses: Activation functions that HTP computes on the unrounded 8-bit result.
        weight: Position of the weight, if static: signed, symmetric.
        bias: Position of the bias.
        scale: Position of the factor per channel, whose bias has any scale.
        channel_axis: Axis of the output channels of the weight.
        result_range: Range of all results, whatever the input.
        activation_bits: Widths of activations that have a fixed-point kernel on HTP.
        centred_16: Inputs whose 16-bit encodings need their zero in the middle; supported from v73 on.
        unsigned: HTP's library rejects signed 8-bit inputs, which its type table lists (SDK 2.51, SM8650).
    """

    view: bool = False
    copies: bool = False
    selects: bool = False
    gathers: tuple[int, ...] = ()
    fills: bool = False
    elementwise: bool = False
    activation: bool = False
    clamps: bool = False
    flat_below: bool = False
    squashes: bool = False
    steep_at_zero: bool = False
    monotone: tuple[int, ...] = ()
    adds: bool = False
    pool: str = ""
    norm: bool = False
    norm_step: bool = False
    recodes: bool = False
    macs: str = ""
    fuses: tuple[str, ...] = ()
    weight: int | None = None
    bias: int | None = None
    scale: int | None = None
    channel_axis: int | None = None
    result_range: tuple[float, float] | None = None
    activation_bits: tuple[int, ...] = ()
    centred_16: tuple[int, ...] = ()
    unsigned: bool = False

    @property
    def clamped_by_range(self) -> bool:
        """Whether the range of a following clamp may become this op's result range."""
        return not self.selects and not self.gathers

    @property
    def is_weighted(self) -> bool:
        """Whether a static input 1 is a weight or a factor, and input 2 a bias."""
        return self.weight is not None or self.scale is not None

    @property
    def unit_low(self) -> int | None:
        """Lower end of a result in [low, 1] for any input; None: depends on the data."""
        return None if self.clamps or self.result_range is None else int(self.result_range[0])

    @property
    def is_convolution(self) -> bool:
        """Whether the op is a convolution, transposed or not."""
        return self.macs in ("convolution", "transposed")


NONE = Traits()
"""Traits of an op type without entry."""

_OPERATIONS = {
    "ElementWiseBinary": tuple(f"ElementWise{name}" for name in BINARY),
    "ElementWiseUnary": tuple(f"ElementWise{name}" for name in UNARY),
    "ElementWiseNeuron": tuple("ElementWiseSoftplus" if name == "Softplus" else name for name in NEURON),
}


def operation_name(op: Op) -> str:
    """Return the type of an op's one operation, like ElementWiseAdd."""
    names = _OPERATIONS.get(op.type) if op.package == NATIVE_PACKAGE else None
    if names is None:
        return op.type
    number = op.param("operation")
    return names[number] if isinstance(number, int) and 0 <= number < len(names) else op.type


def traits(op: Op) -> Traits:
    """Return the traits of an op by its operation; UDOs have none."""
    return _tables().get(op.package, {}).get(operation_name(op), NONE)


def value_sources(op: Op) -> tuple[int, ...]:
    """Return the inputs whose elements an op passes on; () if it computes."""
    found = traits(op)
    if op.param("reduction", 0):
        return ()  # a scatter that adds computes
    return (0,) if found.selects else tuple(index for index in found.gathers if index < len(op.inputs))


def result_range(op: Op) -> tuple[float, float] | None:
    """Return the range of all results of an op; None if the op sets none."""
    if operation_name(op) == "ReluMinMax":
        return float(op.param("min_value", -math.inf)), float(op.param("max_value", math.inf))
    return traits(op).result_range


def macs(op: Op) -> int:
    """Return the multiply-accumulates of convolutions and matrix products."""
    kind, inputs = traits(op).macs, op.inputs
    if not kind or len(inputs) < 2 or inputs[0] is None or inputs[1] is None or not op.outputs:
        return 0
    data, weight, result = inputs[0], inputs[1], op.outputs[0]
    if not data.shape or not weight.shape:
        return 0
    if kind == "transposed":
        return data.size * weight.size // max(weight.shape[-2], 1) if weight.rank >= 2 else 0
    if kind == "dense":
        return result.size * weight.shape[-1]
    if kind == "matmul":
        transposed = bool(op.param("transpose_in0", False)) and data.rank >= 2
        return result.size * data.shape[-2 if transposed else -1]
    return result.size * weight.size // max(weight.shape[-1], 1)


@cache
def _tables() -> Mapping[str, Mapping[str, Traits]]:
    """Return the traits by package and operation."""
    document = tomllib.loads(_DATA.read_text(encoding="utf-8"))
    return {
        _PACKAGES[section]: {name: decoded(name, entry) for name, entry in table.items()}
        for section, table in document.items()
    }


_TYPES = {field.name: str(field.type) for field in fields(Traits)}
_ELEMENTS = {"bool": bool, "str": str, "int | None": int}


def decoded(name: str, entry: Mapping[str, Any]) -> Traits:
    """Return the traits of one entry of the table.

    Args:
        entry: Values by name of the trait; ``gathers`` may be ``"all"``.

    Raises:
        ValueError: If a trait does not exist, or a value is of another type.
    """
    values: dict[str, Any] = {}
    for key, value in entry.items():
        kind = _TYPES.get(key)
        if kind is None:
            raise ValueError(f"{name}: no trait {key!r}")
        if key == "gathers" and value == "all":
            values[key] = _ALL_INPUTS
        elif kind in _ELEMENTS and type(value) is _ELEMENTS[kind]:
            values[key] = value
        elif kind.startswith("tuple[") and isinstance(value, list):
            element = kind.removeprefix("tuple[").split(",")[0]
            if any(type(item).__name__ != element for item in value):
                raise ValueError(f"{name}: {key} = {value!r}, expected {kind}")
            values[key] = tuple(value)
        else:
            raise ValueError(f"{name}: {key} = {value!r}, expected {kind}")
    return Traits(**values)
