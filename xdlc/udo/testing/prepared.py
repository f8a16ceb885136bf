"""An operation with numbers for its operands, ready to run by any kernel."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from xdlc.errors import UsageError
from xdlc.ir import Graph, Op, Scalar, ScaleOffset, Tensor, string
from xdlc.ir.data import ArrayData, packed
from xdlc.ir.dtype import UINT32, DType
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.udo.testing.case import Case, Random

if TYPE_CHECKING:
    from xdlc.opdefs.model import Collection, OpDef
    from xdlc.runtime.udo.kernels import Kernels
    from xdlc.udo.generator.template_context import OperationView, Place

Array = Any  # numpy.ndarray
_SCALE = 1 / 64


class Prepared:
    """An operation of a model, with numbers for its inputs.

    Args:
        collection: The package.
        op: Its definition.
        case: The operands.
        told: Gives the outputs.

    Attributes:
        definition: Its definition.
        case: The operands as the test states them.
        inputs: The operands, by position.
        params: Those that are given.
    """

    def __init__(
        self,
        collection: Collection,
        op: OperationView,
        case: Case,
        told: Callable[[OpView, OpDef], list[TensorSpec]],
    ) -> None:
        import numpy

        self._collection, self.definition, self.case, self._told = collection, op, case, told
        self._rng = numpy.random.default_rng((case.seed, zlib.crc32(str(case).encode())))
        places = [op.inputs[min(index, len(op.inputs) - 1)] for index in range(len(case.inputs))]
        self.inputs = [
            None if given is None else self._tensor(place, given, f"input_{index}")
            for index, (place, given) in enumerate(zip(places, case.inputs, strict=True))
        ]
        self.params = {
            place.name: self._param(place, case.params[place.name])
            for place in op.params
            if place.name in case.params
        }
        unknown = sorted(case.params.keys() - {place.name for place in op.params})
        if unknown:
            raise UsageError(
                f"{case.type} has no parameter {', '.join(unknown)}", fix="correct params of the case"
            )

    def run(self, kernels: Kernels, *, with_defaults: bool = False) -> list[Array]:
        """Return what the operation gives by the kernel of a library or a Python file.

        Args:
            kernels: What has the kernel.
            with_defaults: Whether parameters that are left out are there with their defaults, as in a
                converted model; a library has them of its own.

        Raises:
            XdlcError: If it fails.
        """
        op = self._built()
        if with_defaults:
            op.params = self._defaults() | op.params
        arrays = [
            None if tensor is None or not self._is_fed(index) else tensor.numpy()
            for index, tensor in enumerate(self.inputs)
        ]
        return kernels.operation(op).run(arrays)

    @cached_property
    def outputs(self) -> list[TensorSpec]:
        """What the operation gives, as far as is known before it runs."""
        opdef = next(each for each in self._collection.opdefs if each.name == self.definition.type)
        inputs = tuple(
            None
            if tensor is None
            else TensorSpec(tensor.shape, tensor.dtype, data=None if self._is_fed(index) else tensor.data)
            for index, tensor in enumerate(self.inputs)
        )
        view = OpView(
            self._collection.package,
            self.definition.type,
            "tested",
            inputs,
            (None,) * self.case.outputs,
            {place.name: self._plain(place) for place in self.definition.params if place.name in self.params},
        )
        return self._told(view, opdef)

    def _built(self) -> Op:
        graph = Graph("tested")
        inputs: list[Tensor | None] = []
        for index, tensor in enumerate(self.inputs):
            if tensor is None:
                inputs.append(None)
            elif self._is_fed(index):
                inputs.append(graph.add_input(Tensor(tensor.name, tensor.shape, tensor.dtype)))
            else:
                inputs.append(graph.add_tensor(tensor))
        outputs = [
            graph.add_tensor(Tensor(f"output_{index}", self.closed(spec), spec.dtype))
            for index, spec in enumerate(self.outputs)
        ]
        op = Op(
            self.definition.type,
            inputs,
            outputs,
            self.params,
            name="tested",
            package=self._collection.package,
        )
        graph.append(op)
        for tensor in outputs:
            graph.add_output(tensor)
        return op

    def _defaults(self) -> dict[str, Scalar | Tensor]:
        return {
            place.name: self._param(place, place.initial)
            for place in self.definition.params
            if place.default is not None and place.name not in self.params
        }

    def closed(self, spec: TensorSpec) -> tuple[int, ...]:
        """Return the extents of an output.

        Raises:
            UsageError: If one is open.
        """
        if None in spec.shape:
            raise UsageError(
                f"an output of {self.definition.type} has the open shape {spec.shape}",
                fix="let its shape function tell all extents where those of the inputs are known",
            )
        return tuple(extent or 0 for extent in spec.shape)

    # ------------------------------------------------------------------ operands

    def _is_fed(self, index: int) -> bool:
        """Whether an input is an activation."""
        return not self.definition.inputs[min(index, len(self.definition.inputs) - 1)].static

    def _tensor(self, place: Place, given: Any, name: str) -> Tensor:
        dtype = self._dtype(place, given)
        given = given.shape if isinstance(given, Random) else given
        array = self._random(dtype, given) if isinstance(given, tuple) else self._cast(dtype, given)
        encoding = ScaleOffset(_SCALE, 0, dtype.bits) if dtype.is_fixed else None
        data = packed(ArrayData(array)) if dtype.bits == 4 else ArrayData(array)
        return Tensor(name, array.shape, dtype, encoding, data=data)

    def _dtype(self, place: Place, given: Any) -> DType:
        """The type that a test names or an array has, else the first of the place."""
        import numpy

        from xdlc.udo.generator.variations import cpu_types

        types = cpu_types(place)
        if isinstance(given, Random):
            found = next((dtype for dtype in types if dtype.name == given.dtype), None)
            if found is None:
                taken = ", ".join(dtype.name for dtype in types)
                raise UsageError(
                    f"{place.name} of {self.case.type} is {taken}, not {given.dtype}",
                    fix="correct inputs of the case",
                )
            return found
        own = given.dtype if isinstance(given, numpy.ndarray) else None
        return next((dtype for dtype in types if dtype.numpy == own), types[0])

    def _cast(self, dtype: DType, given: Any) -> Array:
        import numpy

        return numpy.ascontiguousarray(numpy.asarray(given, dtype.numpy))

    def _random(self, dtype: DType, shape: tuple[int, ...]) -> Array:
        if dtype.is_float:
            return self._rng.standard_normal(shape).astype(dtype.numpy)
        least = -4 if dtype.is_fixed and dtype.is_signed else 0
        most = 2 if dtype.kind == "bool" else 4
        return self._rng.integers(least, most, shape).astype(dtype.numpy)

    def _param(self, place: Place, given: Any) -> Scalar | Tensor:
        from xdlc.udo.generator.variations import is_plain

        if not is_plain(place):
            return self._tensor(place, given, place.name)
        if place.values:
            return Scalar(UINT32, self._number(place, given))
        if place.is_string:
            return string(str(given))
        return Scalar(next(iter(place.types.values()))[0], given)

    @staticmethod
    def _number(place: Place, given: Any) -> int:
        names = {value.name: value.value for value in place.values}
        number = names.get(given, given)
        if number not in names.values():
            raise UsageError(
                f"{place.name} is one of {', '.join(names)}, not {given!r}", fix="correct params of the case"
            )
        return int(number)

    def _plain(self, place: Place) -> Any:
        """A parameter's value as shape functions see it."""
        param = self.params[place.name]
        if isinstance(param, Tensor):
            return param.numpy()
        return place.values[int(param.value)].name if place.values else param.value
