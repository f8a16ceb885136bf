"""Shape inference and evaluation of ONNX messages in a child with limits.

A message may come from anyone, and what ``onnx`` and ``onnxruntime`` do with one is not bounded by its size:
some end the process, some never end.  Conversions of this process share one child; it is started with the
first request, and again after a message has ended it.  The module is its service, too: ``commands`` has what
it does.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from typing import TYPE_CHECKING, Any

import numpy

from xdlc.worker import content
from xdlc.worker.content import Array
from xdlc.worker.process import ChildDiedError, SharedWorker
from xdlc.worker.temporary import temporary_files

if TYPE_CHECKING:
    from xdlc.ir.data import TensorData

_WORKER = SharedWorker("xdlc.runtime.onnx_evaluator")
_SECONDS = 2.0  # of the processor, for all requests of one conversion
_MORE = 0.02  # that each request may take besides
_BYTES_PER_SECOND = 5e7  # of work, likewise
_MEMORY = 1 << 28  # bytes that a request may use, beside those of its operands and results
_PATIENCE = 10  # seconds that pass, at most, for one of the processor; and as many more
_DEATHS = 4
_SHAPE_LIKE = 1 << 10  # elements of an input whose values may decide a shape
_PLAIN = {"tensor(bool)", "tensor(double)", "tensor(float)", "tensor(float16)"} | {
    f"tensor({sign}int{bits})" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""Types as onnxruntime names them that pass through numpy."""

Outputs = tuple[dict[str, Any], list[Array]]


class RefusedError(Exception):
    """The library refuses the message, or could not be done with it within the limits."""


def alone(
    node: Any,
    opset: int,
    types: Mapping[str, tuple[Any, Sequence[int | None] | None]],
    values: Mapping[str, TensorData],
) -> Any:
    """Return a ``ModelProto`` that contains only one node.

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
    """Limit the total cost of all requests in the context."""
    token = _ALLOWANCE.set(_ALLOWANCE.get() or _Allowance())
    try:
        yield
    finally:
        _ALLOWANCE.reset(token)


def infer_shapes(model: Any, *, strict: bool = False, data_prop: bool = True) -> Any:
    """Return a ``ModelProto`` with the types and shapes that inference finds.

    Args:
        strict: Whether contradictions are errors; otherwise, what they concern is not inferred.
        data_prop: Whether values of shapes are followed.

    Raises:
        RefusedError: If inference fails.
    """
    request = {"do": "infer", "strict": strict, "data_prop": data_prop}
    _, (message,) = _call(request, [model.SerializeToString()])
    inferred = type(model)()
    inferred.ParseFromString(message)
    return inferred


def function_body(node: Any, version: int, body: int, types: Sequence[bytes]) -> bytes:
    """Return the serialized ``FunctionProto`` of an operator for its input types.

    Args:
        body: Version of the domain in which the function is written.
        types: A serialized ``TypeProto`` for each input.

    Returns:
        The function; empty if the operator has no function.

    Raises:
        RefusedError: If the operator does not take the node.
    """
    request = {"do": "body", "type": node.op_type, "domain": node.domain, "version": version, "body": body}
    return bytes(_call(request, [node.SerializeToString(), *types])[1][0])


def evaluate(
    model: Any, inputs: Mapping[str, TensorData], work: int, *, by_reference: bool = False
) -> list[Array] | None:
    """Return the outputs of a model, from onnxruntime or ONNX's reference.

    Args:
        inputs: Values of its inputs by name.
        work: Bytes that the evaluation reads and writes, about.
        by_reference: Whether the reference implementation computes.

    Returns:
        The outputs; None if there is no kernel for the operator or its types, or an output is no tensor of
        numbers.

    Raises:
        RefusedError: If the values do not fit the operator, or the limits are exceeded.
    """
    request = {"do": "reference" if by_reference else "run", "inputs": list(inputs)}
    operands = [model.SerializeToString(), *(data.numpy().reshape(data.shape) for data in inputs.values())]
    answer, outputs = _call(request, operands, work)
    return outputs if "is_computed" in answer else None


def _call(
    request: dict[str, Any], operands: Sequence[Array | bytes], work: int = 0
) -> tuple[dict[str, Any], list[Any]]:
    """Return the answer to a request with messages and arrays, and its arrays."""
    left = _ALLOWANCE.get() or _Allowance()
    if left.seconds <= 0 or not left.deaths:
        raise RefusedError("computing constant parts of the model needs too much time, or crashes too often")
    with content.shared_file() as file:
        with temporary_files():
            forms = content.write_arrays(file, operands)
        nbytes = os.fstat(file).st_size + work
        more = _MORE + nbytes / _BYTES_PER_SECOND
        seconds = left.seconds + more
        limits = {"seconds": seconds, "memory": _MEMORY + 4 * nbytes}
        try:
            timeout = _PATIENCE * (1 + seconds)
            answer = _WORKER.ask({**request, **limits, "arrays": forms}, [file], timeout=timeout)
        except ChildDiedError as error:
            left.deaths -= 1
            if error.is_late or "SIGPROF" in error.how:
                left.seconds = 0
            raise RefusedError(f"the library that computes this part {error.how}{error.tail}") from error
        left.seconds -= max(0.0, answer["used"] - more)
        if "refused" in answer:
            raise RefusedError(answer["refused"])
        return answer, content.read_arrays(file, answer["arrays"])


def commands() -> dict[str, Any]:
    """Return the functions of the process by request."""
    return {"infer": _of(_infer), "body": _of(_body), "run": _of(_run), "reference": _of(_reference)}


def _of(function: Callable[[dict[str, Any], list[Array]], Outputs]) -> Any:
    """Return a command that applies a function to a file, replaced by the results."""

    def command(request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        (file,) = files
        try:
            answer, results = function(request, content.read_arrays(file, request["arrays"]))
            return {**answer, "arrays": content.write_arrays(file, results)}
        except Exception as error:  # those of onnx, onnxruntime and numpy have no common base
            return {"refused": _reason(error), "arrays": []}
        finally:
            os.close(file)

    return command


def _reason(error: Exception) -> str:
    """Return the text of an error, without the place in onnxruntime's sources."""
    text = " ".join(str(error).split()).rpartition("Status Message: ")[2]
    return re.sub(r"^\S+\.(cc|h):\d+ \S.*?\)( \[with .*?\])? ", "", text)[:300] or type(error).__name__


@cache
def _compiled() -> Any:
    """Return only the compiled module of onnx, which is faster to import."""
    name, package = "onnx.onnx_cpp2py_export", importlib.util.find_spec("onnx")
    folders = package.submodule_search_locations if package else None
    finder = FileFinder(next(iter(folders or [""])), (ExtensionFileLoader, EXTENSION_SUFFIXES))
    spec: Any = finder.find_spec(name)
    if spec is None or name in sys.modules:
        return importlib.import_module(name)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _infer(request: dict[str, Any], operands: list[Array]) -> Outputs:
    strict, data_prop = request["strict"], request["data_prop"]
    (model,) = operands
    return {}, [_compiled().shape_inference.infer_shapes(model, strict, strict, data_prop)]


def _body(request: dict[str, Any], operands: list[Array]) -> Outputs:
    schema = _compiled().defs.get_schema(request["type"], request["version"], request["domain"])
    node, *types = operands
    return {}, [schema.get_context_dependent_function_with_opset_version(request["body"], node, types)]


def _run(request: dict[str, Any], operands: list[Array]) -> Outputs:
    from xdlc.runtime.engine import engine_errors, open_session

    try:
        session = open_session(operands[0], [], [], "DISABLE_ALL", 1, arena=False)
    except engine_errors() as error:
        # The reference implementation gets types and versions that onnxruntime lacks.
        is_wrong = "ShapeInferenceError" in str(error) or "Exception during initialization" in str(error)
        return {"refused": _reason(error)} if is_wrong else {}, []
    if any(value.type not in _PLAIN for value in (*session.get_inputs(), *session.get_outputs())):
        return {}, []
    return _answer(session.run(None, dict(zip(request["inputs"], operands[1:], strict=True))))


def _reference(request: dict[str, Any], operands: list[Array]) -> Outputs:
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.ModelProto.FromString(operands[0])
    inputs = dict(zip(request["inputs"], operands[1:], strict=True))
    with numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results: Any = ReferenceEvaluator(model).run(None, inputs)
        except Exception:  # whatever numpy raises: the node stays an op, whose importer has its own reason
            return {}, []
    return _answer(results)


def _answer(results: Sequence[Any]) -> Outputs:
    if any(not hasattr(array, "dtype") or array.dtype.hasobject for array in results):
        return {}, []  # sequences, optionals and strings
    return {"is_computed": True}, [numpy.asarray(array) for array in results]
