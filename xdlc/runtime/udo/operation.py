"""A UDO of a graph, ready to run."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

from xdlc.errors import BackendError, StorageError
from xdlc.ir import Op
from xdlc.ir.dtype import BY_CODE
from xdlc.opdefs import shape_text
from xdlc.opdefs.control_flow import has_open_rank
from xdlc.opdefs.model import OpDef
from xdlc.opdefs.op_view import TensorSpec, view_of
from xdlc.opdefs.source_match import Kernel
from xdlc.runtime.udo.build_descriptor import StaticData, arguments_of, place_of
from xdlc.runtime.udo.descriptor import Dims, OpForm, TensorForm, element, nbytes, specs_in
from xdlc.runtime.udo.memory import Memory, layout
from xdlc.runtime.udo.sources import Offer
from xdlc.runtime.udo.worker_client import Link

Array = Any  # numpy.ndarray


class _Bound(NamedTuple):
    """The outputs in memory: dimensions and offset of each, and bytes of all."""

    shapes: list[tuple[int, ...]]
    places: list[int]
    total: int


_DOING = {
    "open": "opening it",
    "share": "sharing memory with it",
    "inputs": "inferring its shapes",
    "outputs": "binding its buffers",
    "run": "executing it",
    "collect": "fetching its results",
    "profile": "profiling it",
}
"""Activity of a kernel in errors, by request."""


class Operation:
    """An op with its kernel.

    Made by :meth:`xdlc.runtime.udo.kernels.Kernels.operation`.  It sends the child these requests, in this
    order; ``share`` goes before those whose memory has grown:

    ======= =============================================== ==================================================
    Request When                                            Answer
    ======= =============================================== ==================================================
    open    once for each child                             outputs that the kernel infers
    inputs  the inputs have other dimensions than before    outputs that it infers for these
    outputs after ``inputs``, or ``run`` infers others      none: results get places, if their sizes are known
    run     each time                                       dimensions of results without places; or outputs,
                                                            inferred anew instead of a run
    collect ``run`` returns dimensions                      none: results are stored at these places
    ======= =============================================== ==================================================

    Raises:
        BackendError: If the kernel does not take the op, or fails.
    """

    def __init__(
        self,
        link: Link,
        op: Op,
        number: int,
        form: OpForm,
        data: StaticData,
        offer: Offer,
        shapes: int | None,
        *,
        definition: OpDef | None,
        kernel: Kernel | None,
        is_python: bool,
    ) -> None:
        self.where = place_of(op)
        self.origin = offer.origin
        self._link, self._form, self._offer = link, form, offer
        self._number, self._shapes, self._is_python = number, shapes, is_python
        self._kernel, self._definition = kernel, definition
        self._view = None if definition is None else view_of(op, definition)
        self._count = len(op.inputs)
        self._loose = [has_open_rank(tensor) for tensor in op.outputs]
        self._asks = shapes is not None and any(output.is_open for output in form.outputs)
        self._data = data
        self._generation = -1
        self._open()

    # ------------------------------------------------------------------ opening

    def _open(self) -> None:
        """Open it in the current worker."""
        self._bound: _Bound | None = None
        self._settled: list[Dims] | None = None  # the inputs' dimensions that the outputs are bound for
        generation = self._link.started()
        static = self._data.memory()
        files = [static.file]
        members: dict[str, Any] = {
            "source": self._offer.source,
            "shapes": self._shapes,
            "form": self._form.words(),
            "size": static.size,
        }
        if self._kernel is not None:
            arguments, data = arguments_of(self._kernel)
            more = data.memory()
            members |= {"arguments": arguments.words(), "more": more.size}
            files.append(more.file)
        inferred = specs_in(self._ask("open", files, **members))
        self._generation = generation
        weakref.finalize(self, self._link.release_later, generation, self._number).atexit = False
        if inferred is not None:
            self._agreed(inferred)

    def _agreed(self, inferred: Sequence[TensorSpec]) -> list[Dims]:
        """Return the shapes that the kernel infers; refuse shapes unlike the model's."""
        if len(inferred) != len(self._form.outputs):
            self._fail(f"the kernel infers {len(inferred)} outputs, but the op has {len(self._form.outputs)}")
        dims = []
        for index, (spec, form) in enumerate(zip(inferred, self._form.outputs, strict=True)):
            stated = BY_CODE[form.dtype]
            real = spec.dtype.is_fixed or spec.dtype.is_float
            if spec.dtype is not stated and not (real and stated.is_float):
                self._fail(
                    f"the kernel infers that output {index} is {spec.dtype}, but the model has {stated}"
                )
            if not self._fits(index, spec.shape):
                self._fail(f"the kernel infers that output {index} has shape {_words(spec.shape)}", form)
            dims.append(spec.shape)
        return dims

    def _fits(self, index: int, dims: Dims) -> bool:
        wanted = self._form.outputs[index].dims
        return self._loose[index] or (
            len(dims) == len(wanted)
            and all(a is None or b is None or a == b for a, b in zip(dims, wanted, strict=True))
        )

    # ------------------------------------------------------------------ running

    def run(self, arrays: Sequence[Array | None], *, timeout: float | None = None) -> list[Array]:
        """Return the outputs: float values as float32, others in their original types.

        Args:
            arrays: One for each input, float values as float32; None for omitted and static ones.
            timeout: Seconds that it may take, if that is less than what kernels may take.

        Raises:
            BackendError: If it crashes, takes too long, fails, or returns other shapes or types than the
                model states.
            StorageError: If there is no memory for its inputs or outputs.
        """
        with self._link.held():
            if self._link.started() != self._generation:
                self._open()
            limit = self._link.timeout if timeout is None else min(timeout, self._link.timeout)
            try:
                return self._run(arrays, limit)
            except StorageError as error:
                error.where = ": ".join(filter(None, (self.where, self.origin, error.where)))
                raise

    def profile(self) -> int:
        """Return the nanoseconds of the last run.

        Raises:
            BackendError: If it has not run yet, or the library does not measure.
        """
        with self._link.held():
            if self._bound is None or self._link.started() != self._generation:
                self._fail("the op did not run yet, so xdlc cannot profile the op")
            return int(self._ask("profile").get("nanoseconds", 0))

    def _run(self, arrays: Sequence[Array | None], timeout: float) -> list[Array]:
        answer: dict[str, Any] = {}
        dims, places = self._store(arrays, timeout)
        if dims == self._settled:
            answer = self._execute(timeout, asks=self._asks)
        else:
            self._settled = None
            answer = self._ask("inputs", timeout=timeout, dims=dims, places=places, ask=self._asks)
        if self._settled is None or "outputs" in answer:
            self._settled = None
            self._settle(specs_in(answer), dims, timeout)
            self._settled = dims
            answer = self._execute(timeout)
        if "dims" in answer or self._bound is None:
            self._collect([tuple(shape) for shape in answer.get("dims") or ()], timeout)
        return self._results()

    def _settle(self, inferred: list[TensorSpec] | None, inputs: Sequence[Dims], timeout: float) -> None:
        """Bind outputs in the worker, or describe those of unknown shape."""
        dims: list[Dims] = [form.dims for form in self._form.outputs]
        if any(None in shape for shape in dims):
            agreed = [] if inferred is None else self._agreed(inferred)
            dims = agreed if agreed and all(None not in shape for shape in agreed) else dims
        if any(None in shape for shape in dims) and not self._is_python:
            dims = self._stated(inputs) or dims
        if any(None in shape for shape in dims):
            if not self._is_python:
                self._fail(
                    "the library does not infer the shapes of outputs that are dynamic in the model",
                    fix=f"export {self._form.type}ShapeInference from the library, or pass a Python file "
                    "with a shape function too",
                )
            self._ask("outputs", timeout=timeout, dims=dims, places=None)
            self._bound = None
        else:
            self._place("outputs", dims, timeout)

    def _stated(self, inputs: Sequence[Dims]) -> list[Dims]:
        """Return the shapes that the definition's texts state; none if they are open."""
        if self._definition is None or self._view is None:
            return []
        specs = (
            spec and replace(spec, shape=tuple(shape))
            for spec, shape in zip(self._view.inputs, inputs, strict=False)
        )
        stated = shape_text.infer(self._definition, replace(self._view, inputs=tuple(specs))) or []
        dims = [spec.shape for spec in stated if spec is not None and None not in spec.shape]
        fits = len(dims) == len(self._form.outputs) and all(map(self._fits, range(len(dims)), dims))
        return dims if fits else []

    def _execute(self, timeout: float, *, asks: bool = False) -> dict[str, Any]:
        if self._bound is not None:
            self._memory("outputs", self._bound.total, timeout)
        doing = "inferring its shapes again, or executing it" if asks else None
        return self._ask("run", timeout=timeout, doing=doing, asks=asks)

    def _collect(self, dims: Sequence[Dims], timeout: float) -> None:
        """Fetch results of shapes for which the child has no place yet."""
        if len(dims) != len(self._form.outputs):
            self._fail(
                f"the kernel returned {len(dims)} results, but the op has {len(self._form.outputs)} outputs"
            )
        for index, shape in enumerate(dims):
            if not self._fits(index, shape):
                self._fail(
                    f"the kernel returned shape {_words(shape)} for output {index}", self._form.outputs[index]
                )
        self._place("collect", dims, timeout)

    def _store(self, arrays: Sequence[Array | None], timeout: float) -> tuple[list[Dims], list[int | None]]:
        """Store inputs in shared memory; return their dimensions and places."""
        forms = self._form.inputs
        if len(arrays) != self._count:
            self._fail(f"the op needs {self._count} inputs, but got {len(arrays)}")
        arrays = [*arrays, *[None] * (len(forms) - self._count)]
        checked = [
            self._checked(index, form, array)
            for index, (form, array) in enumerate(zip(forms, arrays, strict=True))
        ]
        places, size = layout(0 if array is None else array.nbytes for array in checked)
        memory = self._memory("inputs", size, timeout)
        for place, array in zip(places, checked, strict=True):
            if array is not None:
                memory.array(place, array.shape, array.dtype)[...] = array
        return (
            [form.dims if array is None else array.shape for form, array in zip(forms, checked, strict=True)],
            [None if array is None else place for place, array in zip(places, checked, strict=True)],
        )

    def _checked(self, index: int, form: TensorForm, array: Array | None) -> Array | None:
        if form.omitted or form.place is not None:
            return None
        dtype = element(form.dtype)
        fits = (
            array is not None
            and array.dtype == dtype
            and (
                form.dims == (None,)  # the rank may be open too
                or (
                    len(form.dims) == array.ndim
                    and all(a is None or a == b for a, b in zip(form.dims, array.shape, strict=True))
                )
            )
        )
        if array is None or not fits:
            got = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
            self._fail(f"the op needs {dtype}{_words(form.dims)} as input {index}, but got {got}")
        return array

    def _place(self, request: str, dims: Sequence[Dims], timeout: float) -> None:
        """Bind the outputs in the worker."""
        shapes = [tuple(extent or 0 for extent in shape) for shape in dims]
        items = [element(form.dtype).itemsize for form in self._form.outputs]
        places, total = layout(nbytes(shape, item) for shape, item in zip(shapes, items, strict=True))
        self._memory("outputs", total, timeout)
        self._bound = _Bound(shapes, places, total)
        self._ask(request, timeout=timeout, dims=shapes, places=places)

    def _memory(self, name: str, size: int, timeout: float) -> Memory:
        """Return the memory of inputs or outputs, which the child has too."""
        memory = self._link.memory(name, size)
        if memory.file >= 0:
            self._ask("share", [memory.file], timeout=timeout, name=name, size=memory.size)
            memory.close()
        return memory

    def _results(self) -> list[Array]:
        import numpy

        assert self._bound is not None
        memory = self._link.memory("outputs", self._bound.total)
        dtypes = [element(form.dtype) for form in self._form.outputs]
        places = zip(self._bound.places, self._bound.shapes, dtypes, strict=True)
        return [numpy.array(memory.array(place, shape, dtype)) for place, shape, dtype in places]

    # ------------------------------------------------------------------ errors

    def _ask(
        self,
        request: str,
        files: Sequence[int] = (),
        *,
        timeout: float | None = None,
        doing: str | None = None,
        **members: Any,
    ) -> dict[str, Any]:
        return self._link.ask(
            {"do": request, "op": self._number, **members},
            files,
            place=self.where,
            origin=self.origin,
            doing=doing or _DOING[request],
            timeout=timeout,
        )

    def _fail(self, problem: str, form: TensorForm | None = None, fix: str | None = None) -> NoReturn:
        if form is not None:
            problem += f", but the model states {_words(form.dims)}"
            fix = fix or "correct the kernel, or convert the model again with this kernel"
        raise BackendError(problem, where=f"{self.where}: {self.origin}", fix=fix)


def _words(dims: Dims) -> str:
    return f"[{', '.join('?' if extent is None else str(extent) for extent in dims)}]"
