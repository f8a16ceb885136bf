"""Comparison of the C library of a generated package with its numpy kernels."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from xdlc.errors import UsageError, nearest_names
from xdlc.ir import Graph, Model, Op, Scalar, ScaleOffset, Tensor, string
from xdlc.ir.data import ArrayData, packed
from xdlc.ir.dtype import FLOAT32, UINT32, DType
from xdlc.opdefs.backend_view import on_cpu
from xdlc.opdefs.model import Collection, OpDef, ParamDef, TensorDef
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.xml_reader import read_valid
from xdlc.runtime.udo.build_descriptor import kernel_dtype
from xdlc.runtime.udo.kernels import Kernels

Array = Any  # numpy.ndarray
_SCALE = 1 / 64


def check(
    package: str | Path,
    type: str,
    inputs: Sequence[Any],
    params: Mapping[str, Any] | None = None,
    *,
    outputs: int = 1,
    rtol: float = 1e-5,
    atol: float = 1e-5,
) -> None:
    """Check that a package's C library computes the same as its numpy kernel.

    Args:
        package: Folder of the package, whose library is built.
        type: Operation type.
        inputs: For each input an array, the shape of one of random numbers, or None if it is omitted.  An
            array of a type that the input does not have is cast to its first one.
        params: Values by name; an enumeration by its name; a tuple is the shape of a random tensor.
        outputs: Number of outputs.
        rtol: Relative tolerance, as of ``numpy.testing.assert_allclose``.
        atol: Absolute tolerance.

    Raises:
        XdlcError: If a kernel fails or is not filled yet, or the operands do not suit the definition.
        AssertionError: If the outputs differ.
    """
    import numpy

    operation = _Operation(Path(package), type, inputs, params or {}, outputs)
    expected, found = operation.run(operation.numpy_kernels), operation.run(operation.library)
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        what = f"{type}, output {index}: the library against the numpy kernel"
        numpy.testing.assert_allclose(one, other, rtol=rtol, atol=atol, equal_nan=True, err_msg=what)


class _Operation:
    """An operation of a package with operands."""

    def __init__(
        self, folder: Path, type: str, inputs: Sequence[Any], params: Mapping[str, Any], outputs: int
    ) -> None:
        import numpy

        self._collection = _collection(folder)
        package = self._collection.package
        self._definition = _definition(self._collection, type)
        self._rng = numpy.random.default_rng(zlib.crc32(f"{type}{inputs}{params}".encode()))
        self._count = outputs
        places = self._definition.inputs
        self._places = [places[min(index, len(places) - 1)] for index in range(len(inputs))]
        self._inputs = [
            None if given is None else self._tensor(place, given, f"input_{index}")
            for index, (place, given) in enumerate(zip(self._places, inputs, strict=True))
        ]
        unknown = sorted(params.keys() - self._definition.params.keys())
        if unknown:
            raise UsageError(
                f"{type} has no parameter {', '.join(unknown)}", fix="correct the names of the parameters"
            )
        self._params = {name: self._param(self._definition.params[name], params[name]) for name in params}
        self.library = folder / "libs" / "x86-64_linux_clang" / f"libUdo{package}Reg.so"
        self.numpy_kernels = folder / "python" / package / "kernels.py"
        self._shapes = folder / "python" / package / "shapes.py"
        if not self.library.is_file():
            raise UsageError("the library is missing", where=str(self.library), fix="run make all_x86")

    def run(self, path: Path) -> list[Array]:
        """Return the outputs that the kernel of a library or Python file computes."""
        arrays = [
            None if tensor is None or place.is_static else tensor.numpy()
            for tensor, place in zip(self._inputs, self._places, strict=True)
        ]
        with self._kernels(path) as kernels:
            return kernels.operation(self._op()).run(arrays)

    def _op(self) -> Op:
        graph = Graph("checked")
        inputs: list[Tensor | None] = []
        for tensor, place in zip(self._inputs, self._places, strict=True):
            if tensor is None or place.is_static:
                inputs.append(None if tensor is None else graph.add_tensor(tensor))
            else:
                inputs.append(graph.add_input(Tensor(tensor.name, tensor.shape, tensor.dtype)))
        outputs = [
            graph.add_tensor(
                Tensor(f"output_{index}", tuple(int(dim or 0) for dim in spec.shape), spec.dtype)
            )
            for index, spec in enumerate(self._outputs)
        ]
        op = Op(self._definition.name, inputs, outputs, self._params, name="checked", package=self._package)
        graph.append(op)
        for tensor in outputs:
            graph.add_output(tensor)
        return op

    @property
    def _package(self) -> str:
        return self._collection.package

    def _kernels(self, path: Path) -> Kernels:
        from xdlc.container.udo import add_definitions

        model = Model()
        graph = model.add_graph(Graph("definitions"))
        graph.append(Op(self._definition.name, [], [], name="checked", package=self._package))
        add_definitions(model, {self._package: self._collection})
        return Kernels([path], model=model)

    @cached_property
    def _outputs(self) -> list[TensorSpec]:
        """Return outputs as inferred by the library, the configuration or Python."""
        specs = tuple(
            None
            if tensor is None
            else TensorSpec(tensor.shape, tensor.dtype, data=tensor.data if place.is_static else None)
            for tensor, place in zip(self._inputs, self._places, strict=True)
        )
        name = self._definition.name
        params = {name: self._plain(name) for name in self._params}
        view = OpView(self._package, name, "checked", specs, (None,) * self._count, params)
        inferred = self._inferred(self.library, view) or self._by_text(view)
        if inferred is None and self._shapes.is_file():
            inferred = self._inferred(self._shapes, view)
        if inferred is None or any(None in spec.shape for spec in inferred):
            raise UsageError(
                f"nothing computes the output shapes of {name}",
                fix=f"fill infer_{name} in jni/src/reg/shapes, or shape_{name} in {self._shapes.name}",
            )
        return inferred

    def _inferred(self, path: Path, view: OpView) -> list[TensorSpec] | None:
        with self._kernels(path) as kernels:
            return kernels.infer(view, self._definition)

    def _by_text(self, view: OpView) -> list[TensorSpec] | None:
        from xdlc.opdefs.shape_text import infer

        places, specs = self._definition.outputs, []
        for index, spec in enumerate(infer(self._definition, view) or [None]):
            if spec is None:
                return None
            place = places[min(index, len(places) - 1)]
            specs.append(TensorSpec(spec.shape, _types(place)[0], layout=spec.layout))
        return specs

    def _tensor(self, place: TensorDef, value: Any, name: str) -> Tensor:
        import numpy

        types = _types(place)
        own = value.dtype if isinstance(value, numpy.ndarray) else None
        dtype = next((dtype for dtype in types if dtype.numpy == own), types[0])
        if isinstance(value, tuple):
            array = self._random(dtype, value)
        else:
            array = numpy.ascontiguousarray(numpy.asarray(value, dtype.numpy))
        encoding = ScaleOffset(_SCALE, 0, dtype.bits) if dtype.is_fixed else None
        data = packed(ArrayData(array)) if dtype.bits == 4 else ArrayData(array)
        return Tensor(name, array.shape, dtype, encoding, data=data)

    def _random(self, dtype: DType, shape: tuple[int, ...]) -> Array:
        if dtype.is_float:
            return self._rng.standard_normal(shape).astype(dtype.numpy)
        least = -4 if dtype.is_fixed and dtype.is_signed else 0
        return self._rng.integers(least, 2 if dtype.kind == "bool" else 4, shape).astype(dtype.numpy)

    def _param(self, param: ParamDef, value: Any) -> Scalar | Tensor:
        if param.enumeration:
            if value not in param.enumeration:
                fix = f"use one of {', '.join(param.enumeration)}"
                raise UsageError(f"{param.name} has no value {value!r}", fix=fix)
            return Scalar(UINT32, param.enumeration.index(value))
        if any(dtype.kind == "string" for dtype in param.dtypes):
            return string(str(value))
        if param.is_scalar:
            return Scalar((param.dtypes or (FLOAT32,))[0], value)
        return self._tensor(param, value, param.name)

    def _plain(self, name: str) -> Any:
        """Return the value of a parameter in the form for shape functions."""
        param, names = self._params[name], self._definition.params[name].enumeration
        if isinstance(param, Tensor):
            return param.numpy()
        return names[int(param.value)] if names else param.value


def _collection(folder: Path) -> Collection:
    configs = sorted((folder / "config").glob("*OpDef.xml"))
    known = [path for path in configs if path.name == f"{folder.name}OpDef.xml"] or configs[:1]
    if not known:
        raise UsageError("has no OpDef XML", where=str(folder / "config"), fix="generate the package again")
    return read_valid(known[0])


def _definition(collection: Collection, type: str) -> OpDef:
    ops = {op.name: op for op in collection.opdefs}
    if type not in ops:
        raise UsageError(
            f"package {collection.package} has no operation {type}",
            fix=nearest_names(type, ops) or f"use one of {', '.join(ops)}",
        )
    return on_cpu(ops[type], collection) or ops[type]


def _types(place: TensorDef) -> list[DType]:
    """Return the data types of a tensor in kernels of the CPU."""
    types = place.dtypes or (FLOAT32,)
    fixed = place.is_static or isinstance(place, ParamDef)
    return list(types if fixed else dict.fromkeys(kernel_dtype(dtype) for dtype in types))
