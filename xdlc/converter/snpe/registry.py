"""Registry of layer translators, and their view of a layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdlc import ir
from xdlc.errors import UnsupportedOp
from xdlc.ir import Graph, Op, Origin, Param, Tensor
from xdlc.ir.quantization import float_data
from xdlc.registry import Registry

MISSING = object()
LIMIT = 1 << 32
TYPE_CHANGING = ("Argmax", "Cast")


@dataclass(slots=True, eq=False)
class Layer:
    """A layer, with its tensors in the graph under construction.

    Attributes:
        op: The layer's op of package ``snpe``.
        inputs: Its inputs from other layers.
        weights: Its weights by name.
        outputs: Its outputs, not yet produced.
    """

    op: Op
    graph: Graph
    inputs: list[Tensor]
    weights: dict[str, Tensor]
    outputs: list[Tensor]

    @property
    def source(self) -> Tensor:
        """The first input.

        Raises:
            UnsupportedOp: If it is missing.
        """
        if not self.inputs:
            raise self.problem("the layer has no input")
        return self.inputs[0]

    @property
    def output(self) -> Tensor:
        """The first output."""
        if not self.outputs:
            raise self.problem("the layer has no output")
        return self.outputs[0]

    def attr(self, name: str, default: Any = MISSING) -> Any:
        """Return an attribute's plain value.

        Raises:
            UnsupportedOp: If it is missing and there is no default.
        """
        value = self.op.param(name, None)
        if value is not None:
            return value
        if default is MISSING:
            raise self.problem(f"the layer has no attribute {name!r}")
        return default

    def whole(self, name: str, default: Any = MISSING) -> int:
        """Return an attribute that is a whole number.

        Raises:
            UnsupportedOp: If it is something else.
        """
        value = self.attr(name, default)
        if not isinstance(value, int):
            raise self.problem(f"attribute {name!r} is {value!r}, not a whole number")
        return int(value)

    def real(self, name: str) -> float:
        """Return an attribute that is a number.

        Raises:
            UnsupportedOp: If it is something else.
        """
        value = self.attr(name)
        if not isinstance(value, int | float) or math.isnan(value):
            raise self.problem(f"attribute {name!r} is {value!r}, not a number")
        return float(value)

    def flag(self, name: str) -> bool:
        """Return a boolean attribute; False if it is missing.

        Raises:
            UnsupportedOp: If it is something else.
        """
        return bool(self.whole(name, False))

    def floats(self, name: str) -> list[float]:
        """Return a numeric list attribute; [] if it is missing."""
        return [float(value) for value in self._list(name)] if name in self.op.params else []

    def _list(self, name: str) -> list[Any]:
        held = self.op.params.get(name)
        if not isinstance(held, Tensor) or held.dtype not in (ir.dtype.INT32, ir.dtype.FLOAT32):
            raise self.problem(f"the layer has no attribute {name!r} that lists numbers")
        found: list[Any] = held.numpy().reshape(-1).tolist()
        return found

    def ints(self, name: str, count: int) -> list[int]:
        """Return an attribute that lists ``count`` whole numbers."""
        values = self._list(name)
        if not all(isinstance(value, int) for value in values):
            raise self.problem(f"attribute {name!r} lists {values}, not whole numbers")
        if len(values) != count:
            raise self.problem(f"attribute {name!r} has {len(values)} values instead of {count}")
        return values

    def naturals(self, values: Any, quantity: str) -> Tensor:
        """Return whole numbers as a uint32 tensor parameter.

        Raises:
            UnsupportedOp: If one is negative or too large.
        """
        import numpy

        held = numpy.asarray(values, object).reshape(-1).tolist()
        if not all(0 <= value < LIMIT for value in held):
            raise self.problem(f"the layer has {quantity} {values} outside 0 to {LIMIT - 1}")
        return ir.u32s(values)

    def natural(self, name: str, default: Any = MISSING) -> ir.Scalar:
        """Return a whole number as a scalar parameter of uint32.

        Raises:
            UnsupportedOp: If it is negative or too large.
        """
        value = self.whole(name, default)
        if not 0 <= value < LIMIT:
            raise self.problem(f"attribute {name!r} is {value}, outside 0 to {LIMIT - 1}")
        return ir.u32(value)

    def weight(self, name: str) -> Tensor:
        """Return a weight that the layer must have."""
        if name not in self.weights:
            raise self.problem(f"the layer has no weights {name!r}")
        return self.weights[name]

    def choice(self, name: str, meanings: Mapping[int, str]) -> str:
        """Return the meaning of an attribute's number, as real files have shown."""
        number = self.whole(name)
        if number not in meanings:
            shown = ", ".join(f"{key} {value}" for key, value in meanings.items())
            raise self.problem(f"attribute {name!r} is {number}; supported values are {shown}")
        return meanings[number]

    def emit(
        self,
        type: str,
        inputs: Sequence[Tensor | None],
        params: Mapping[str, Param] | None = None,
        outputs: Sequence[Tensor] | None = None,
    ) -> None:
        """Append an op with the outputs of the layer or with stated outputs.

        SNPE 1 lets quantized layers follow float ones and the other way round; where both meet, the op
        computes in float, between Dequantize and Quantize.
        """
        targets = self.outputs if outputs is None else outputs
        fixed = {tensor.dtype.is_fixed for tensor in (*inputs, *targets) if tensor is not None}
        if len(fixed) < 2 or type in TYPE_CHANGING:
            self.append(type, inputs, targets, params)
            return
        results = [self._float_twin(tensor) if tensor.dtype.is_fixed else tensor for tensor in targets]
        self.append(type, [self._float_input(tensor) for tensor in inputs], results, params)
        for result, tensor in zip(results, targets, strict=True):
            if result is not tensor:
                self.append(
                    "Quantize",
                    [result],
                    [tensor],
                    why="a quantized layer that reads float values",
                )

    def append(
        self,
        type: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        params: Mapping[str, Param] | None = None,
        why: str | None = None,
        package: str = ir.NATIVE_PACKAGE,
    ) -> None:
        """Append an op without changes; its origin is the layer's origin or the layer."""
        origin = Origin(self.op.origin.nodes or (self.op.name,), why)
        name = self.op.name
        self.graph.append(
            ir.make_op(self.graph, type, inputs, outputs, params, name=name, package=package, origin=origin)
        )

    def _float_twin(self, tensor: Tensor) -> Tensor:
        name = self.graph.unique_name(f"{tensor.name}_float")
        return self.graph.add_tensor(Tensor(name, tensor.shape, ir.dtype.FLOAT32))

    def _float_input(self, tensor: Tensor | None) -> Tensor | None:
        if tensor is None or not tensor.dtype.is_fixed:
            return tensor
        if tensor.is_static:
            return Tensor(
                tensor.name, tensor.shape, ir.dtype.FLOAT32, data=float_data(tensor), role=tensor.role
            )
        twin = self._float_twin(tensor)
        self.append("Dequantize", [tensor], [twin], why="a float layer after a quantized layer")
        return twin

    def problem(self, text: str, fix: str | None = None) -> UnsupportedOp:
        """Return an error about this layer."""
        return UnsupportedOp(
            text,
            where=f"layer {self.op.name!r} ({self.op.type})",
            fix=fix or "convert the source model again, with a newer converter",
        )


Translator = Callable[[Layer], None]
_TABLE: Registry[str, Translator] = Registry("xdlc.converter.snpe.layers", "translator")


def layer(*types: str) -> Callable[[Translator], Translator]:
    """Register a function as the translator of layer types.

    Raises:
        ValueError: If a type is registered twice.
    """
    return _TABLE.register(*types)


def load_all() -> Mapping[str, Translator]:
    """Return the translators of all layers by type."""
    return _TABLE.all()
