"""Service of ``xdlc.worker`` that loads and runs users' libraries and kernels."""

from __future__ import annotations

import contextlib
import io
import resource
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from xdlc.opdefs.op_view import TensorSpec
from xdlc.runtime.udo.descriptor import Dims, OpForm, words_of_specs
from xdlc.runtime.udo.library import Code, OpPackage, Registration
from xdlc.runtime.udo.memory import Memory
from xdlc.runtime.udo.native import static_addresses
from xdlc.runtime.udo.python import Mark
from xdlc.runtime.udo.python_file import PythonFile, PythonOp, Siblings
from xdlc.runtime.udo.sources import alike
from xdlc.runtime.udo.worker_op import Compiled, CompiledOp, Infer, Served
from xdlc.worker.limits import watch_memory

Request = dict[str, Any]
Files = list[int]
Answer = dict[str, Any]
_LINE_BUFFERED = 1  # _IOLBF of the C library


def commands() -> dict[str, Callable[[Request, Files], Answer]]:
    """Return the functions of the process by request."""
    sys.dont_write_bytecode = True  # folders of users stay as they are
    _print_at_once()
    _open_many_files()
    watch_memory()
    return _Kernels().commands()


def _print_at_once() -> None:
    """Flush each line that kernels print, because a crash loses buffers."""
    import ctypes

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    with contextlib.suppress(AttributeError, ValueError):
        system = ctypes.CDLL(None)
        system.setvbuf(ctypes.c_void_p.in_dll(system, "stdout"), None, _LINE_BUFFERED, 0)


def _open_many_files() -> None:
    """Raise the limit of open files: each kernel of a DLC keeps a file open."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class _Kernels:
    """Loaded sources and open operations."""

    def __init__(self) -> None:
        self._sources: list[Registration | OpPackage | PythonFile | Compiled] = []
        self._siblings: dict[Path, Siblings] = {}
        self._ops: dict[int, Served] = {}
        self._shared: dict[str, Memory] = {}

    def commands(self) -> dict[str, Callable[[Request, Files], Answer]]:
        return {
            "load": self._load,
            "load_kernel": self._load_kernel,
            "open": self._open,
            "infer": self._infer,
            "share": self._share,
            "inputs": self._bind_inputs,
            "outputs": self._bind_outputs,
            "run": self._run,
            "collect": self._collect,
            "profile": self._profile,
            "release": self._release,
            "close": self._close,
        }

    def _load(self, request: Request, files: Files) -> Answer:
        path = Path(request["path"])
        source: Registration | OpPackage | PythonFile
        if request["kind"] == "python":
            beside = self._siblings.setdefault(path.parent, Siblings(path.parent))
            source = PythonFile(path, len(self._sources), beside)
            offers = [_offer(mark.package, mark.type, mark.role == "kernel") for mark in source.functions]
        elif request["provider"]:
            source = OpPackage(path, request["provider"])
            offers = [_offer(source.package, type, True) for type in source.ops]
        else:
            source = Registration(path)
            offers = [
                {
                    **_offer(source.package, type, "CPU" in cores and source.has_kernels),
                    "shapes": source.infers(type),
                    "cores": cores,
                }
                for type, cores in source.ops.items()
            ]
        self._sources.append(source)
        return {"offers": offers}

    def _load_kernel(self, request: Request, files: Files) -> Answer:
        self._sources.append(Compiled(files[0], request["entry"], request["where"]))
        return {}

    def _open(self, request: Request, files: Files) -> Answer:
        form, memory = _described(request, files)
        infer = self._inference(request["shapes"], memory)
        source = self._sources[request["source"]]
        code: Code | PythonOp
        own = _own(source, "kernel", form)
        if isinstance(source, Registration | OpPackage):
            code = source.open(own, memory)
        elif isinstance(source, PythonFile):
            code = PythonOp(source, source.functions[Mark("kernel", own.package, own.type)], own, memory)
        else:
            arguments = OpForm.of(request["arguments"]).params
            code = CompiledOp(source, form, arguments, Memory(request["more"], files[1], writable=False))
        self._ops[request["op"]] = Served(form, memory, code, infer, self._shared)
        return {"outputs": words_of_specs(infer(form, {}))}

    def _inference(self, number: int | None, memory: Memory, *, aloud: bool = False) -> Infer:
        source = None if number is None else self._sources[number]

        def infer(form: OpForm, addresses: dict[int, int]) -> list[TensorSpec] | None:
            form = _own(source, "shape_function", form)
            if isinstance(source, Registration):
                return source.infer(
                    form, memory, {**static_addresses(form, memory), **addresses}, aloud=aloud
                )
            if isinstance(source, PythonFile):
                return source.infer(Mark("shape_function", form.package, form.type), form.view(memory))
            return None

        return infer

    def _infer(self, request: Request, files: Files) -> Answer:
        form, memory = _described(request, files)
        return {"outputs": words_of_specs(self._inference(request["shapes"], memory, aloud=True)(form, {}))}

    def _share(self, request: Request, files: Files) -> Answer:
        name = request["name"]
        self._shared[name] = Memory(request["size"], files[0], writable=name == "outputs")
        return {}

    def _bind_inputs(self, request: Request, files: Files) -> Answer:
        op = self._ops[request["op"]]
        op.bind_inputs(_dims(request), request["places"])
        if request["ask"]:
            op.infer()
        return {"outputs": op.outputs}

    def _bind_outputs(self, request: Request, files: Files) -> Answer:
        self._ops[request["op"]].bind_outputs(_dims(request), request["places"])
        return {}

    def _run(self, request: Request, files: Files) -> Answer:
        op = self._ops[request["op"]]
        if request["asks"] and op.infer():
            return {"outputs": op.outputs}
        dims = op.run()
        return {} if dims is None else {"dims": dims}

    def _collect(self, request: Request, files: Files) -> Answer:
        self._ops[request["op"]].collect(_dims(request), request["places"])
        return {}

    def _profile(self, request: Request, files: Files) -> Answer:
        return {"nanoseconds": self._ops[request["op"]].profile()}

    def _release(self, request: Request, files: Files) -> Answer:
        for number in request["ops"]:
            op = self._ops.pop(number, None)
            if op is not None:
                op.release()
        return {}

    def _close(self, request: Request, files: Files) -> Answer:
        self._release({"ops": list(self._ops)}, files)
        for source in reversed(self._sources):
            if isinstance(source, Registration | OpPackage):
                source.close()
        return {}


def _offer(package: str, type: str, kernel: bool) -> dict[str, Any]:
    return {"package": package, "type": type, "kernel": kernel, "shapes": not kernel, "cores": ["CPU"]}


def _own(source: object, role: str, form: OpForm) -> OpForm:
    """Return an op under the name that its package has in a source."""
    if isinstance(source, Registration | OpPackage):
        return replace(form, package=source.package)
    if not isinstance(source, PythonFile):
        return form
    marks = ((mark.package, mark.type) for mark in source.functions if mark.role == role)
    found = alike((form.package, form.type), marks)
    return form if found is None else replace(form, package=found[0])


def _dims(request: Request) -> list[Dims]:
    return list(map(tuple, request["dims"]))


def _described(request: Request, files: Files) -> tuple[OpForm, Memory]:
    return OpForm.of(request["form"]), Memory(request["size"], files[0], writable=False)
