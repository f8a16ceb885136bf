"""What the tests of generated packages are made of: operands, and runs of libraries and numpy kernels."""

from __future__ import annotations

import subprocess
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdlc.errors import UsageError
from xdlc.ir import Graph, Model, Op, Scalar, ScaleOffset, Tensor, string
from xdlc.ir.data import ArrayData
from xdlc.ir.dtype import UINT32, DType
from xdlc.opdefs.custom import OpView, TensorSpec

if TYPE_CHECKING:
    from xdlc.opdefs.model import Collection, OpDef
    from xdlc.runtime.udo.kernels import Kernels
    from xdlc.udo.generator.views import OpView as Definition
    from xdlc.udo.generator.views import Place

Array = Any  # numpy.ndarray
_SCALE = 1 / 64
_SECONDS = 600


@dataclass(frozen=True)
class Case:
    """An operation with operands.

    Attributes:
        type: Operation type.
        inputs: For each input an array, the shape of a random one, or None if it is left out.
        params: Values by name; an enumeration by its name; a tuple is the shape of a random tensor.
        outputs: How many outputs there are.
        name: What is peculiar to it.
        seed: Where random numbers begin.
    """

    type: str
    inputs: Sequence[Any]
    params: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    name: str = ""
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.type}, {self.name}" if self.name else self.type


class Package:
    """A generated package whose tests run.

    Args:
        folder: Its folder.

    Attributes:
        collection: What its configuration defines.
        library: Its registration library on this machine.
    """

    def __init__(self, folder: Path) -> None:
        from xdlc.opdefs import read_valid
        from xdlc.udo.generator.viewing import package_view

        self.folder = folder
        configs = sorted((folder / "config").glob("*OpDef.xml"))
        known = [path for path in configs if path.name == f"{folder.name}OpDef.xml"] or configs[:1]
        if not known:
            raise UsageError(
                "has no OpDef XML", where=str(folder / "config"), fix="generate the package anew"
            )
        self.collection: Collection = read_valid(known[0])
        self.name = self.collection.package
        self._ops = {op.type: op for op in package_view(self.collection).ops}
        self.library = folder / "libs" / "x86-64_linux_clang" / f"libUdo{self.name}Reg.so"
        self._kernels = folder / "python" / self.name / "kernels.py"
        self._shapes = folder / "python" / self.name / "shapes.py"
        self._opened: dict[Path, Kernels] = {}

    # ------------------------------------------------------------------ checks

    def compare(self, case: Case, *, rtol: float = 1e-5, atol: float = 1e-5) -> None:
        """Check that the C library and the numpy kernel give the same.

        Raises:
            XdlcError: If one of them fails, or is not filled yet.
            AssertionError: If they differ.
        """
        prepared = self._prepared(case)
        expected = prepared.run(self._open(self._kernels))
        found = prepared.run(self._open(self._built()))
        self._same(found, expected, f"{case}: the library against the numpy kernel", rtol, atol)

    def repeat(self, case: Case, *, times: int) -> None:
        """Check that the library gives the same outputs for the same inputs, again and again.

        Raises:
            XdlcError: If it fails.
            AssertionError: If it does not.
        """
        prepared = self._prepared(case)
        first, *others = (prepared.run(self._open(self._built())) for _ in range(times))
        for other in others:
            self._same(other, first, f"{case}: one run against another", 0.0, 0.0)

    def threads(self, cases: Sequence[Case], *, threads: int) -> None:
        """Check that several threads, each with the library for itself, get what one alone gets.

        Raises:
            XdlcError: If one of them fails.
            AssertionError: If outputs differ.
        """
        prepared = [self._prepared(case) for case in cases]
        alone = [each.run(self._open(self._built())) for each in prepared]

        def work(_: int) -> list[list[Array]]:
            with self._kernels_of(self._built()) as own:
                return [each.run(own) for each in prepared]

        with ThreadPoolExecutor(threads) as pool:
            for results in pool.map(work, range(threads)):
                for case, found, expected in zip(cases, results, alone, strict=True):
                    self._same(found, expected, f"{case}: in a thread against alone", 0.0, 0.0)

    def cycles(self, *, cycles: int, threads: int) -> None:
        """Create, execute and release the operations many times, in several threads of one process.

        Raises:
            AssertionError: If one of them fails.
        """
        command = ["make", "--no-print-directory", "check", f"CYCLES={cycles}", f"THREADS={threads}"]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        if done.returncode:
            raise AssertionError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")

    def close(self) -> None:
        """End the processes that kernels have run in.

        Raises:
            BackendError: If a library fails at its end.
        """
        while self._opened:
            self._opened.popitem()[1].close()

    # ------------------------------------------------------------------ parts

    def _built(self) -> Path:
        if not self.library.is_file():
            raise UsageError("is not there", where=str(self.library), fix="build it: make all_x86")
        return self.library

    def _open(self, path: Path) -> Kernels:
        """The kernels of a file, in a process that all tests share."""
        if path not in self._opened:
            self._opened[path] = self._kernels_of(path)
        return self._opened[path]

    def _kernels_of(self, path: Path) -> Kernels:
        from xdlc.container.udo import add_definitions
        from xdlc.runtime.udo.kernels import Kernels

        model = Model()
        graph = model.add_graph(Graph("definitions"))
        for type in self._ops:
            graph.append(Op(type, [], [], name=type, package=self.name))
        add_definitions(model, {self.name: self.collection})
        return Kernels([path], model=model)

    @staticmethod
    def _same(found: list[Array], expected: list[Array], what: str, rtol: float, atol: float) -> None:
        import numpy

        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            numpy.testing.assert_allclose(
                one, other, rtol=rtol, atol=atol, equal_nan=True, err_msg=f"{what}, output {index}"
            )

    def _prepared(self, case: Case) -> Prepared:
        if case.type not in self._ops:
            raise UsageError(f"package {self.name} has no operation {case.type}")
        return Prepared(self.collection, self._ops[case.type], case, self._told)

    def _told(self, view: OpView, definition: OpDef) -> list[TensorSpec]:
        """Outputs of an operation: from the library, else from the Python functions."""
        for path in (self._built(), self._shapes):
            if not path.is_file():
                continue
            found = self._open(path).infer(view, definition)
            if found is not None:
                return found
        raise UsageError(
            f"nothing tells the shapes of {view.type}",
            fix=f"fill infer_{view.type} in jni/src/reg/shapes, or shape_{view.type} in {self._shapes.name}",
        )


class Prepared:
    """An operation of a model, with numbers for its inputs.

    Args:
        collection: The package.
        op: Its definition.
        case: The operands.
        told: Gives the outputs.
    """

    def __init__(
        self,
        collection: Collection,
        op: Definition,
        case: Case,
        told: Callable[[OpView, OpDef], list[TensorSpec]],
    ) -> None:
        import numpy

        self._collection, self._op, self._case, self._told = collection, op, case, told
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
            raise UsageError(f"{case.type} has no parameter {', '.join(unknown)}")

    def run(self, kernels: Kernels) -> list[Array]:
        """Return what the operation gives by the kernel of a library or a Python file.

        Raises:
            XdlcError: If it fails.
        """
        op = self._built()
        arrays = [
            None if tensor is None or not self._is_fed(index) else tensor.numpy()
            for index, tensor in enumerate(self.inputs)
        ]
        return kernels.operation(op).run(arrays)

    @cached_property
    def outputs(self) -> list[TensorSpec]:
        """What the operation gives, as far as is known before it runs."""
        definition = next(each for each in self._collection.opdefs if each.name == self._op.type)
        inputs = tuple(
            None
            if tensor is None
            else TensorSpec(tensor.shape, tensor.dtype, data=None if self._is_fed(index) else tensor.data)
            for index, tensor in enumerate(self.inputs)
        )
        view = OpView(
            self._collection.package,
            self._op.type,
            "tested",
            inputs,
            (None,) * self._case.outputs,
            {place.name: self._plain(place) for place in self._op.params if place.name in self.params},
        )
        return self._told(view, definition)

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
            graph.add_tensor(Tensor(f"output_{index}", self._closed(spec), spec.dtype))
            for index, spec in enumerate(self.outputs)
        ]
        op = Op(self._op.type, inputs, outputs, self.params, name="tested", package=self._collection.package)
        graph.append(op)
        for tensor in outputs:
            graph.add_output(tensor)
        return op

    def _closed(self, spec: TensorSpec) -> tuple[int, ...]:
        if None in spec.shape:
            raise UsageError(
                f"an output of {self._op.type} has the open shape {spec.shape}",
                fix="let its shape function tell all extents where those of the inputs are known",
            )
        return tuple(extent or 0 for extent in spec.shape)

    # ------------------------------------------------------------------ operands

    def _is_fed(self, index: int) -> bool:
        """Whether an input is an activation."""
        return not self._op.inputs[min(index, len(self._op.inputs) - 1)].static

    def _tensor(self, place: Place, given: Any, name: str) -> Tensor:
        from xdlc.udo.generator.samples import cpu_type

        dtype = cpu_type(place)
        array = self._random(dtype, given) if isinstance(given, tuple) else self._cast(dtype, given)
        encoding = None
        if dtype.is_fixed:
            encoding = ScaleOffset(_SCALE, 0, dtype.bits)
        return Tensor(name, array.shape, dtype, encoding, data=ArrayData(array))

    def _cast(self, dtype: DType, given: Any) -> Array:
        import numpy

        return numpy.ascontiguousarray(numpy.asarray(given, dtype.numpy))

    def _random(self, dtype: DType, shape: tuple[int, ...]) -> Array:
        if dtype.is_float:
            return self._rng.standard_normal(shape).astype(dtype.numpy)
        most = 2 if dtype.kind == "bool" else 4
        return self._rng.integers(0, most, shape).astype(dtype.numpy)

    def _param(self, place: Place, given: Any) -> Scalar | Tensor:
        from xdlc.udo.generator.samples import is_plain

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
            raise UsageError(f"{place.name} is one of {', '.join(names)}, not {given!r}")
        return int(number)

    def _plain(self, place: Place) -> Any:
        """A parameter's value as shape functions see it."""
        param = self.params[place.name]
        if isinstance(param, Tensor):
            return param.numpy()
        return place.values[int(param.value)].name if place.values else param.value
