"""One user-defined operation of a graph, ready to run."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

from xdlc.errors import BackendError, StorageError
from xdlc.ir import Op
from xdlc.ir.dtype import BY_CODE
from xdlc.opdefs.control_flow import has_open_rank
from xdlc.opdefs.custom import Kernel, TensorSpec
from xdlc.runtime.udo.activations import place_of
from xdlc.runtime.udo.describe import arguments_of
from xdlc.runtime.udo.forms import Dims, OpForm, TensorForm, element, specs_in
from xdlc.runtime.udo.link import Link
from xdlc.runtime.udo.memory import Memory, layout
from xdlc.runtime.udo.offers import Offer
from xdlc.runtime.udo.output_buffers import OutputBuffers
from xdlc.runtime.udo.static_data import StaticData

Array = Any  # numpy.ndarray


class Operation:
    """An op with its kernel.

    Made by :meth:`xdlc.runtime.udo.kernels.Kernels.operation`.

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
        kernel: Kernel | None,
        is_python: bool,
    ) -> None:
        self.where = place_of(op)
        self.origin = offer.origin
        self._link, self._form, self._offer = link, form, offer
        self._number, self._shapes, self._is_python = number, shapes, is_python
        self._kernel = kernel
        self._count = len(op.inputs)
        self._loose = [has_open_rank(tensor) for tensor in op.outputs]
        self._data = data
        self._generation = -1
        self._open()

    # ------------------------------------------------------------------ opening

    def _open(self) -> None:
        """Open it in the child that there is now."""
        self._inputs: Memory | None = None
        self._buffers = OutputBuffers(self._form.outputs)
        self._given: list[Dims] = []
        generation = self._link.started()
        static = self._data.memory()
        request = {
            "do": "open",
            "op": self._number,
            "source": self._offer.source,
            "shapes": self._shapes,
            "form": self._form.words(),
            "size": static.size,
        }
        files = [static.file]
        if self._kernel is not None:
            arguments, data = arguments_of(self._kernel)
            more = data.memory()
            request |= {"arguments": arguments.words(), "more": more.size}
            files.append(more.file)
        answer = self._ask(request, files, "opening it")
        self._generation = generation
        weakref.finalize(self, self._link.release_later, generation, self._number).atexit = False
        self._check_shapes(answer)

    def _check_shapes(self, answer: dict[str, Any]) -> None:
        """Check that the model's outputs are those that the kernel gives."""
        told = specs_in(answer)
        if told is not None:
            self._agreed(told)

    def _agreed(self, told: Sequence[TensorSpec]) -> list[Dims]:
        if len(told) != len(self._form.outputs):
            self._fail(f"tells of {len(told)} outputs, the op has {len(self._form.outputs)}")
        dims = []
        for index, (spec, form) in enumerate(zip(told, self._form.outputs, strict=True)):
            stated = BY_CODE[form.dtype]
            real = spec.dtype.is_fixed or spec.dtype.is_float
            if spec.dtype is not stated and not (real and stated.is_float):
                self._fail(f"says that output {index} is {spec.dtype}, the model says {stated}")
            if not self._fits(index, spec.shape):
                self._fail(f"says that output {index} has shape {_words(spec.shape)}", form)
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
        """Return the outputs: reals as float32, others in their own types.

        Args:
            arrays: One for each input, reals as float32; None for those that are left out or static.
            timeout: Seconds that it may take, if that is less than what kernels may take.

        Raises:
            BackendError: If it crashes, takes too long, fails, writes beyond its outputs, or gives other
                shapes or types than the model states.
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
            BackendError: If it has not run yet, or the library does not tell.
        """
        with self._link.held():
            if self._buffers.bound is None or self._link.started() != self._generation:
                self._fail("has not run yet")
            answer = self._ask({"do": "profile", "op": self._number}, (), "profiling it")
            return int(answer.get("nanoseconds", 0))

    def _run(self, arrays: Sequence[Array | None], timeout: float) -> list[Array]:
        told = self._give(arrays, timeout)
        dims: list[Dims] = [form.dims for form in self._form.outputs]
        if any(None in one for one in dims):
            dims = [] if told is None else self._agreed(told)
            if (not dims or any(None in one for one in dims)) and not self._is_python:
                self._fail(
                    "does not tell the shapes of outputs that the model leaves open",
                    fix="give the library infer_outputs, or a shape function in a Python file beside it",
                )
        known = bool(dims) and all(None not in one for one in dims)
        if known:
            self._bind_outputs(dims, timeout)
        else:
            self._describe_outputs(timeout)
        answer = self._ask({"do": "run", "op": self._number}, (), "executing it", timeout)
        if not known:
            dims = [tuple(one) for one in answer.get("dims") or ()]
            if len(dims) != len(self._form.outputs):
                self._fail(f"gave {len(dims)} results, the op has {len(self._form.outputs)} outputs")
            for index, one in enumerate(dims):
                if not self._fits(index, one):
                    self._fail(f"gave output {index} of shape {_words(one)}", self._form.outputs[index])
            self._bind_outputs(dims, timeout)
            self._ask({"do": "collect", "op": self._number}, (), "fetching its results", timeout)
        return self._results()

    def _give(self, arrays: Sequence[Array | None], timeout: float) -> list[TensorSpec] | None:
        """Put the inputs where the child reads them; return what it tells of outputs that are open."""
        forms = self._form.inputs
        if len(arrays) != self._count:
            self._fail(f"takes {self._count} inputs, got {len(arrays)}")
        arrays = [*arrays, *[None] * (len(forms) - self._count)]
        held = [
            self._checked(index, form, array)
            for index, (form, array) in enumerate(zip(forms, arrays, strict=True))
        ]
        places, size = layout(0 if array is None else array.nbytes for array in held)
        memory = self._link.memory("inputs", size)
        fresh, self._inputs = memory is not self._inputs, memory
        for place, array in zip(places, held, strict=True):
            if array is not None:
                memory.array(place, array.shape, array.dtype)[...] = array
        dims: list[Dims] = [
            form.dims if array is None else array.shape for form, array in zip(forms, held, strict=True)
        ]
        asks = self._shapes is not None and any(form.is_open for form in self._form.outputs)
        if not (fresh or asks) and dims == self._given:
            return None
        self._given, self._buffers.bound = dims, None
        request = {
            "do": "inputs",
            "op": self._number,
            "dims": dims,
            "places": [None if array is None else place for place, array in zip(places, held, strict=True)],
            "size": memory.size,
            "ask": asks,
        }
        return specs_in(self._hand_over(request, memory, "telling its shapes", timeout))

    def _checked(self, index: int, form: TensorForm, array: Array | None) -> Array | None:
        if form.omitted or form.place is not None:
            return None
        wanted = element(form.dtype)
        fits = (
            array is not None
            and array.dtype == wanted
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
            self._fail(f"takes {wanted}{_words(form.dims)} as input {index}, got {got}")
        return array

    def _bind_outputs(self, dims: Sequence[Dims], timeout: float) -> None:
        bound = self._buffers.laid_out(dims)
        memory = self._link.memory("outputs", bound.total)
        if not self._buffers.prepare(memory, bound):
            return
        request = {
            "do": "outputs",
            "op": self._number,
            "dims": bound.shapes,
            "places": bound.places,
            "size": memory.size,
        }
        self._hand_over(request, memory, "binding its buffers", timeout)
        self._buffers.bound = bound

    def _hand_over(
        self, request: dict[str, Any], memory: Memory, doing: str, timeout: float
    ) -> dict[str, Any]:
        """Make a request about a memory, with its file if the child does not have it yet."""
        answer = self._ask(request, [memory.file] if memory.file >= 0 else (), doing, timeout)
        memory.close()
        return answer

    def _describe_outputs(self, timeout: float) -> None:
        dims = [form.dims for form in self._form.outputs]
        request = {"do": "outputs", "op": self._number, "dims": dims, "places": [None] * len(dims), "size": 0}
        self._ask(request, (), "binding its buffers", timeout)
        self._buffers.bound = None

    def _results(self) -> list[Array]:
        breach = self._buffers.breach()
        if breach is not None:
            self._link.give_up()
            self._fail(
                f"wrote byte {breach.byte} of output {breach.output}, which has {breach.size} bytes",
                fix="correct the kernel: it must stay inside its outputs",
            )
        return self._buffers.arrays()

    # ------------------------------------------------------------------ errors

    def _ask(
        self, request: dict[str, Any], files: Sequence[int], doing: str, timeout: float | None = None
    ) -> dict[str, Any]:
        return self._link.ask(
            request, files, place=self.where, origin=self.origin, doing=doing, timeout=timeout
        )

    def _fail(self, problem: str, form: TensorForm | None = None, fix: str | None = None) -> NoReturn:
        if form is not None:
            problem += f", the model says {_words(form.dims)}"
            fix = fix or "correct the kernel, or convert the model again with it"
        raise BackendError(problem, where=f"{self.where}: {self.origin}", fix=fix)


def _words(dims: Dims) -> str:
    return f"[{', '.join('?' if extent is None else str(extent) for extent in dims)}]"
