"""Shape inference and evaluation of ONNX messages in a child process, whose time and memory are limited.

A message may come from anyone, and what ``onnx`` and ``onnxruntime`` do with one is not bounded by its size:
some end the process, some never end.  Conversions of this process share one child; it is started with the
first request, and again after a message has ended it.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from xdlc.runtime.child import temporary_files
from xdlc.runtime.udo.worker_process import DiedError, Process

if TYPE_CHECKING:
    from xdlc.ir.data import Array, TensorData

_WORKER = "xdlc.runtime.onnx_worker"
_SECONDS = 2.0  # of the processor, for all requests of one conversion
_MORE = 0.02  # that each request may take besides
_BYTES_PER_SECOND = 5e7  # of work, likewise
_MEMORY = 1 << 28  # bytes that a request may use, beside those of its operands and results
_PATIENCE = 10  # seconds that pass, at most, for one of the processor; and as many more
_DEATHS = 4
_SHAPE_LIKE = 1 << 10  # elements of an input whose values may decide a shape


class RefusedError(Exception):
    """The library refuses the message, or could not be done with it within the limits."""


def alone(
    node: Any,
    opset: int,
    types: Mapping[str, tuple[Any, Sequence[int | None] | None]],
    values: Mapping[str, TensorData],
) -> Any:
    """Return a ``ModelProto`` of a node alone, whose inputs are those of the model.

    Args:
        node: ``NodeProto``, which becomes that of the model.
        opset: Version of its domain.
        types: numpy dtype and dimensions of each input, None for those that are not known.
        values: What is known of the inputs; those that are long decide no shape.
    """
    from onnx import helper, numpy_helper

    graph = helper.make_graph(
        [],
        "alone",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)
            for name, (dtype, shape) in types.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        [
            numpy_helper.from_array(data.numpy(), name)
            for name, data in values.items()
            if math.prod(data.shape) <= _SHAPE_LIKE
        ],
    )
    graph.node.append(node)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, opset)], ir_version=10)


class _Allowance:
    """Time and deaths of children that the requests of one conversion may still cost."""

    def __init__(self) -> None:
        self.seconds = _SECONDS
        self.deaths = _DEATHS


_ALLOWANCE: ContextVar[_Allowance | None] = ContextVar("allowance", default=None)


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Limit what all requests cost together while the context is open; others are limited each."""
    token = _ALLOWANCE.set(_ALLOWANCE.get() or _Allowance())
    try:
        yield
    finally:
        _ALLOWANCE.reset(token)


def infer_shapes(model: Any, *, strict: bool = False, data_prop: bool = True) -> Any:
    """Return a ``ModelProto`` with the types and shapes that inference finds.

    Args:
        model: ``ModelProto``.
        strict: Whether contradictions are errors; otherwise, what they concern is not inferred.
        data_prop: Whether values of shapes are followed.

    Raises:
        RefusedError: If inference fails.
    """
    _, (found,) = _call(
        {"do": "infer", "strict": strict, "data_prop": data_prop}, [model.SerializeToString()]
    )
    made = type(model)()
    made.ParseFromString(found)
    return made


def function_body(node: Any, version: int, body: int, types: Sequence[bytes]) -> bytes:
    """Return the serialized ``FunctionProto`` that defines an operator for types of its inputs.

    Args:
        node: ``NodeProto``.
        version: Version of its domain.
        body: Version of the domain in which the function is written.
        types: A serialized ``TypeProto`` for each input.

    Returns:
        The function; nothing if there is none.

    Raises:
        RefusedError: If the operator does not take the node.
    """
    request = {"do": "body", "type": node.op_type, "domain": node.domain, "version": version, "body": body}
    return _call(request, [node.SerializeToString(), *types])[1][0]


def evaluate(
    model: Any, given: Mapping[str, TensorData], work: int, *, by_reference: bool = False
) -> list[Array] | None:
    """Return the outputs of a model, by onnxruntime or by ONNX's reference implementation.

    Args:
        model: ``ModelProto``.
        given: Values of its inputs by name.
        work: Bytes that the evaluation reads and writes, about.
        by_reference: Whether the reference implementation computes.

    Returns:
        The outputs; None if there is no kernel for the operator or its types, or an output is no tensor of
        numbers.

    Raises:
        RefusedError: If the values do not fit the operator, or the limits are exceeded.
    """
    import numpy

    request = {
        "do": "reference" if by_reference else "run",
        "inputs": [[name, data.dtype.name, list(data.shape)] for name, data in given.items()],
    }
    arrays = [numpy.ascontiguousarray(data.numpy()).reshape(-1) for data in given.values()]
    parts = [model.SerializeToString(), *(array.view(numpy.uint8).data for array in arrays)]
    answer, found = _call(request, parts, work)
    if "outputs" not in answer:
        return None
    return [
        numpy.frombuffer(bytearray(part), numpy.dtype(dtype)).reshape(shape)
        for (dtype, shape), part in zip(answer["outputs"], found, strict=True)
    ]


def _call(
    request: dict[str, Any], parts: Sequence[bytes | memoryview], work: int = 0
) -> tuple[dict[str, Any], list[bytes]]:
    """Return the answer to a request, and the parts of what the child has put into the file.

    Raises:
        RefusedError: If there is none, within what is left of the limits.
    """
    left = _ALLOWANCE.get() or _Allowance()
    nbytes = sum(map(len, parts)) + work
    more = _MORE + nbytes / _BYTES_PER_SECOND
    if left.seconds <= 0 or not left.deaths:
        raise RefusedError("what the model needs evaluated takes too long, or ends the process too often")
    seconds = left.seconds + more
    limits = {"seconds": seconds, "memory": _MEMORY + 4 * nbytes}
    try:
        answer, found = _CHILD.call({**request, **limits}, parts, _PATIENCE * (1 + seconds))
    except DiedError as error:
        left.deaths -= 1
        if "SIGPROF" in error.how or "within" in error.how:
            left.seconds = 0
        raise RefusedError(f"the library that evaluates it {error.how}") from error
    left.seconds -= max(0.0, answer["used"] - more)
    if "refused" in answer:
        raise RefusedError(answer["refused"])
    return answer, found


class _Child:
    """The child of this process; one request runs at a time, whichever thread it is from."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._begin_anew)

    def _begin_anew(self) -> None:
        """Let a copy of the process start a child of its own."""
        self._process, self._lock = None, threading.Lock()

    def call(
        self, request: Mapping[str, Any], parts: Sequence[bytes | memoryview], timeout: float
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Send a request, and the content of a file; return the answer, and what it has put into the file.

        Raises:
            DiedError: If there is none.
            StorageError: If no memory is left for the file.
        """
        with self._lock, contextlib.ExitStack() as stack:
            if self._process is None or not self._process.is_alive:
                self._process = Process(_WORKER)
            with temporary_files():
                file = stack.enter_context(open(os.memfd_create("xdlc-onnx", os.MFD_CLOEXEC), "r+b"))
                for part in parts:
                    file.write(part)
                file.flush()
            sizes = [len(part) for part in parts]
            answer = self._process.ask({**request, "parts": sizes}, [file.fileno()], timeout=timeout)
            file.seek(0)
            return answer, [file.read(size) for size in answer.get("parts", ())]


_CHILD = _Child()
