"""Worker: the child process that runs shape inference and single nodes of ONNX models.

Started by ``onnx_evaluator`` through ``worker_process``.  A request states the seconds of the processor and
the bytes of memory that it may use; the system ends the process that uses more time.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import resource
import signal
import socket
import sys
import time
import warnings
from collections.abc import Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from typing import Any

from xdlc.runtime.udo import wire

_PLAIN = {"tensor(bool)", "tensor(double)", "tensor(float)", "tensor(float16)"} | {
    f"tensor({sign}int{bits})" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""Types as onnxruntime names them that pass through numpy."""

Outputs = tuple[dict[str, Any], Sequence[Any]]


def main(line: socket.socket) -> None:
    """Serve requests until the parent closes the line, by its end at the latest."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    while True:
        try:
            request, (file,) = wire.receive(line)
        except (wire.ClosedError, ValueError):
            os._exit(0)
        with open(file, "r+b") as content:
            content.seek(0)
            parts = [content.read(size) for size in request["parts"]]
            began = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, request["seconds"])
            _limit_memory(request["memory"], most)
            try:
                answer, results = _COMMANDS[request["do"]](request, parts)
            except Exception as error:  # those of onnx, onnxruntime and numpy have no common base
                answer, results = {"refused": _reason(error)}, ()
            signal.setitimer(signal.ITIMER_PROF, 0)
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
            content.seek(0)
            content.truncate()
            try:
                for part in results:
                    content.write(part)
                content.flush()
            except OSError as error:
                answer, results = {"refused": f"the system refuses: {error.strerror}"}, ()
        used = time.process_time() - began
        wire.send(line, {**answer, "used": used, "parts": [len(part) for part in results]})


def _limit_memory(more: int, most: int) -> None:
    """Refuse the process more memory than it has now and so many bytes."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/statm", "rb") as file:
        has = int(file.read().split()[5]) * resource.getpagesize()
        limit = has + more if most == resource.RLIM_INFINITY else min(most, has + more)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def _reason(error: Exception) -> str:
    """Return the text of an error, without the place in onnxruntime's sources."""
    text = " ".join(str(error).split()).rpartition("Status Message: ")[2]
    return re.sub(r"^\S+\.(cc|h):\d+ \S.*?\)( \[with .*?\])? ", "", text)[:300] or type(error).__name__


@cache
def _compiled() -> Any:
    """Return the compiled module of the onnx package alone: to import all of it takes five times as long."""
    name, package = "onnx.onnx_cpp2py_export", importlib.util.find_spec("onnx")
    folders = package.submodule_search_locations if package else None
    finder = FileFinder(next(iter(folders or [""])), (ExtensionFileLoader, EXTENSION_SUFFIXES))
    spec: Any = finder.find_spec(name)
    if spec is None or name in sys.modules:
        return importlib.import_module(name)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _infer(request: dict[str, Any], parts: Sequence[bytes]) -> Outputs:
    strict, data_prop = request["strict"], request["data_prop"]
    return {}, [_compiled().shape_inference.infer_shapes(parts[0], strict, strict, data_prop)]


def _body(request: dict[str, Any], parts: Sequence[bytes]) -> Outputs:
    schema = _compiled().defs.get_schema(request["type"], request["version"], request["domain"])
    node, *types = parts
    return {}, [schema.get_context_dependent_function_with_opset_version(request["body"], node, types)]


def _arrays(request: dict[str, Any], parts: Sequence[bytes]) -> dict[str, Any]:
    import ml_dtypes  # noqa: F401 - adds the names of its types to numpy
    import numpy

    return {
        name: numpy.frombuffer(bytearray(part), numpy.dtype(dtype)).reshape(shape)
        for (name, dtype, shape), part in zip(request["inputs"], parts[1:], strict=True)
    }


def _run(request: dict[str, Any], parts: Sequence[bytes]) -> Outputs:
    from xdlc.runtime.engine import engine_errors, open_session

    try:
        session = open_session(parts[0], [], [], "DISABLE_ALL", 1, arena=False)
    except engine_errors() as error:
        # The reference implementation gets types and versions that onnxruntime lacks.
        is_wrong = "ShapeInferenceError" in str(error) or "Exception during initialization" in str(error)
        return {"refused": _reason(error)} if is_wrong else {}, ()
    if any(value.type not in _PLAIN for value in (*session.get_inputs(), *session.get_outputs())):
        return {}, ()
    return _answer(session.run(None, _arrays(request, parts)))


def _reference(request: dict[str, Any], parts: Sequence[bytes]) -> Outputs:
    import numpy
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.ModelProto.FromString(parts[0])
    with numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results: Any = ReferenceEvaluator(model).run(None, _arrays(request, parts))
        except Exception:  # whatever numpy raises: the node stays an op, whose importer has its own reason
            return {}, ()
    return _answer(results)


def _answer(results: Sequence[Any]) -> Outputs:
    import numpy

    if any(not hasattr(array, "dtype") or array.dtype.hasobject for array in results):
        return {}, ()  # sequences, optionals and strings
    arrays = [numpy.ascontiguousarray(array) for array in results]
    outputs = [
        [array.dtype.name, list(numpy.shape(result))] for array, result in zip(arrays, results, strict=True)
    ]
    return {"outputs": outputs}, [array.reshape(-1).view(numpy.uint8).data for array in arrays]


_COMMANDS = {"infer": _infer, "body": _body, "run": _run, "reference": _reference}

if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
