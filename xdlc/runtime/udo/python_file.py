"""Python files with kernels and shape functions, in the worker."""

from __future__ import annotations

import importlib.util
import operator
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from xdlc.errors import BackendError, XdlcError
from xdlc.ir.dtype import UNDEFINED, DType
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.runtime.udo.descriptor import (
    MAX_RANK,
    OPEN_EXTENT,
    OpForm,
    TensorForm,
    element,
    spec_of,
    static_array,
)
from xdlc.runtime.udo.memory import Memory
from xdlc.runtime.udo.python import Mark, functions_of, on_path

MOST_OUTPUTS = 4096
Array = Any  # numpy.ndarray


def raised(error: BaseException, path: str, what: str) -> BackendError:
    """Return the error of an exception in the code of a file, with its line."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == path] or list(frames)
    words = " ".join(traceback.format_exception_only(error)[-1].split())
    place, line = (own[-1].filename, own[-1].lineno) if own else (path, None)
    if isinstance(error, SyntaxError) and error.filename == path:
        place, line, words = path, error.lineno, f"{type(error).__name__}: {error.msg}"
    line_of = f"{place}:{line}" if line else place
    if isinstance(error, XdlcError):
        return BackendError(f"{what} failed: {error.problem}", where=error.where or line_of, fix=error.fix)
    fix = "pip install 'xdlc[numba]'" if getattr(error, "name", None) == "numba" else None
    return BackendError(f"{what} raised {words[:1000]}", where=line_of, fix=fix)


class Siblings:
    """The modules in a folder, importable only while ``importable`` is open.

    So files of two folders may each have a ``helper`` in theirs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._modules: dict[str, ModuleType] = {}

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Add the folder to the end of the import path in the context, modules loaded."""
        before = set(sys.modules)
        sys.modules.update({name: module for name, module in self._modules.items() if name not in before})
        try:
            with on_path(self._folder):
                yield
        finally:
            new = sys.modules.keys() - before
            own = {name for name in new if "." not in name and self._is_here(sys.modules[name])}
            for name in new:
                if name.partition(".")[0] in own:
                    self._modules[name] = sys.modules.pop(name)

    def _is_here(self, module: ModuleType) -> bool:
        """Return whether a module or package is directly in the folder."""
        folders = [os.path.dirname(path) for path in getattr(module, "__path__", ())]
        file = getattr(module, "__file__", None)
        return self._folder in (folders or [os.path.dirname(file) if isinstance(file, str) else ""])


class PythonFile:
    """A file of kernels and shape functions.

    Args:
        number: Number among all such files.
        siblings: The modules in its folder.

    Attributes:
        functions: Its marked functions.
        where: Its path.
        siblings: The modules in its folder.

    Raises:
        BackendError: If it cannot be loaded, or marks nothing.
    """

    def __init__(self, path: Path, number: int, siblings: Siblings) -> None:
        self.where, self.siblings = str(path), siblings
        name = f"xdlc_udo_file_{number}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            with siblings.importable():
                spec.loader.exec_module(module)
                every = {id(held): held for held in vars(module).values()}.values()
                marked = [one for held in every for one in functions_of(held)]
        except BaseException as error:
            raise raised(error, self.where, "loading the file") from error
        self.functions: dict[Mark, Callable[..., Any]] = {}
        for mark, function in marked:
            if mark in self.functions:
                raise BackendError(
                    f"the file has two functions for the {mark.role} of {mark.package}::{mark.type}: "
                    f"{_name(self.functions[mark])} and {_name(function)}",
                    where=self.where,
                    fix="omit one function",
                )
            self.functions[mark] = function
        if not self.functions:
            raise BackendError(
                "the file marks no function as a kernel or a shape function",
                where=self.where,
                fix='put @xdlc.udo.kernel("Package", "Type") before a function, or give a plugin compute',
            )

    def infer(self, mark: Mark, view: OpView) -> list[TensorSpec] | None:
        """Return the outputs that a shape function infers.

        Raises:
            BackendError: If it fails, or returns no shapes.
        """
        try:
            with self.siblings.importable():
                result = self.functions[mark](view)
        except BaseException as error:
            raise raised(error, self.where, f"the shape function of {mark.package}::{mark.type}") from error
        if result is None:
            return None
        specs = self._specs(mark, view, result)
        if len(specs) > MOST_OUTPUTS:
            raise BackendError(
                f"the shape function of {mark.package}::{mark.type} returned over {MOST_OUTPUTS} outputs",
                where=self.where,
                fix=f"return one for each of the {len(view.outputs)} outputs",
            )
        return specs

    def _specs(self, mark: Mark, view: OpView, result: Any) -> list[TensorSpec]:
        specs = []
        for index, item in enumerate(_items(result, len(view.outputs))):
            known = view.outputs[index] if index < len(view.outputs) else None
            spec = _spec_of(item, known.dtype if known else UNDEFINED)
            if spec is None:
                raise BackendError(
                    f"the shape function of {mark.package}::{mark.type} returned output {index} as "
                    f"{item!r:.200}",
                    where=self.where,
                    fix="return a TensorSpec, or a tuple of dimensions, for each output: at most "
                    f"{MAX_RANK} of them, from 0 to {OPEN_EXTENT - 1}, None if dynamic",
                )
            specs.append(spec)
        return specs


def _items(result: Any, count: int) -> list[Any]:
    """Return a function's results by output; a bare shape is the only one."""
    result = _plain(result)
    if not isinstance(result, Sequence) or isinstance(result, str):
        return [result]
    items = [_plain(item) for item in result[: MOST_OUTPUTS + 1]]
    several = any(isinstance(one, TensorSpec | Sequence) and not isinstance(one, str) for one in items)
    return items if several or (not items and not count) else [result]


def _plain(item: Any) -> Any:
    """Return an array as lists."""
    return item.tolist() if type(item).__module__ == "numpy" and hasattr(item, "tolist") else item


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _spec_of(item: Any, dtype: DType) -> TensorSpec | None:
    dims = item.shape if isinstance(item, TensorSpec) else item
    stated = item.dtype if isinstance(item, TensorSpec) else dtype
    if not isinstance(stated, DType) or not isinstance(dims, Sequence) or isinstance(dims, str):
        return None
    try:
        shape = tuple(None if dim is None else operator.index(dim) for dim in dims)
    except TypeError:
        return None
    if len(shape) > MAX_RANK or any(dim is not None and not 0 <= dim < OPEN_EXTENT for dim in shape):
        return None
    named = item if isinstance(item, TensorSpec) else TensorSpec((), stated)
    return TensorSpec(shape, stated, str(named.name), str(named.layout))


class PythonOp:
    """An operation that a function computes.

    Args:
        memory: Its static data.
    """

    def __init__(self, file: PythonFile, function: Callable[..., Any], form: OpForm, memory: Memory) -> None:
        self._file, self._function, self._memory = file, function, memory
        self._title = f"{form.package}::{form.type}"
        self._params = form.values(memory)
        self._inputs: list[Array | None] = []
        self._outputs: list[TensorSpec] = []
        self._results: list[Array] = []
        self._elapsed = 0

    def bind(self, form: OpForm, inputs: Sequence[Array | None]) -> None:
        """Bind the inputs; static inputs are None here."""
        self._inputs = [
            static_array(tensor, self._memory) if tensor.place is not None else array
            for tensor, array in zip(form.inputs, inputs, strict=True)
        ]
        self._outputs = [spec_of(tensor, self._memory) for tensor in form.outputs]

    def run(self, outputs: Sequence[TensorForm]) -> list[Array]:
        """Compute it and return the results.

        Raises:
            BackendError: If it raises, or returns another number of arrays, or other shapes or types.
        """
        start = time.perf_counter_ns()
        try:
            with self._file.siblings.importable():
                given = self._function(list(self._inputs), dict(self._params), list(self._outputs))
        except BaseException as error:
            raise raised(error, self._file.where, f"the kernel of {self._title}") from error
        self._elapsed = time.perf_counter_ns() - start
        return self._checked(given, outputs)

    def profile(self) -> int:
        """Return the nanoseconds of the last run."""
        return self._elapsed

    def _checked(self, given: Any, outputs: Sequence[TensorForm]) -> list[Array]:
        import numpy

        arrays = list(given) if isinstance(given, list | tuple) else [given]
        if len(arrays) != len(outputs):
            self._refuse(f"returned {len(arrays)} results, but the op has {len(outputs)} outputs")
        results = []
        for index, (array, form) in enumerate(zip(arrays, outputs, strict=True)):
            if not isinstance(array, numpy.ndarray | numpy.generic):
                self._refuse(
                    f"returned an object of type {type(array).__name__} for output {index}, not an array"
                )
            output = numpy.asarray(array)
            wanted = element(form.dtype)
            if output.dtype != wanted:
                fix = f"give it that type: .astype(numpy.{wanted})"
                self._refuse(f"returned output {index} as {output.dtype} instead of {wanted}", fix)
            if form.shape == (1,) and not output.shape:
                output = output.reshape(1)  # as a model stores a scalar
            if not form.is_open and output.shape != form.shape:
                self._refuse(
                    f"returned output {index} of shape {list(output.shape)} instead of {list(form.shape)}"
                )
            results.append(output)
        return results

    def _refuse(self, problem: str, fix: str = "") -> None:
        raise BackendError(
            f"the kernel of {self._title} {problem}",
            where=self._file.where,
            fix=fix or "return one array for each output, of the shape and type that `outputs` states",
        )
