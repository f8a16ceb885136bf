"""Kernels of UDOs for sessions."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from xdlc.errors import BackendError, UnsupportedOp, UsageError, XdlcError, nearest_names
from xdlc.ir import Model, Op
from xdlc.opdefs.backend_view import on_cpu
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.options import spell
from xdlc.runtime.udo.build_descriptor import form_of, form_of_view, place_of, typed
from xdlc.runtime.udo.descriptor import specs_in
from xdlc.runtime.udo.kernel_files import Call, read_calls
from xdlc.runtime.udo.operation import Operation
from xdlc.runtime.udo.sources import (
    DEFAULT_TIMEOUT,
    OWN_MACHINE,
    Offer,
    PathLike,
    alike,
    checked_timeout,
    paths_of,
    sources_of,
)
from xdlc.runtime.udo.worker_client import Link

if TYPE_CHECKING:
    from xdlc.opdefs.model import OpDef
    from xdlc.runtime.udo.build_descriptor import StaticData

_log = logging.getLogger(__name__)


def _give_library() -> str:
    option = spell("udo_package_path")
    return f"pass the kernel's registration library, Python file or folder kernel_meta with {option}"


class Kernels:
    """Libraries, Python files and compiled kernels, in a child process.

    The process is started with the first request.  One that dies is replaced, a few times.
    Any number of sessions and threads may use the same object.  One operation runs at a time, so that a crash
    is that of one operation; kernels that are to run at once want an object each.  Use as a context manager,
    or call ``close``.

    Args:
        paths: Registration libraries, Python files with kernels or shape functions, and ``kernel_meta``.
        model: The model; its definitions name operands and enumerators.
        timeout: Seconds that each call may take.

    Raises:
        UsageError: If the file does not exist, or the time-out is not valid.
        ContainerError: If a record of the model is damaged.
    """

    def __init__(
        self,
        paths: PathLike | Iterable[PathLike] | None = (),
        *,
        model: Model | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        sources = sources_of(paths_of(paths))
        self._sources = [source for source in sources if source.kind != "kernels"]
        self._described = [source for source in sources if source.kind == "kernels"]
        every = [call for source in self._described for call in read_calls(source.path)]
        self._foreign = [call for call in every if call.kernel.machine != OWN_MACHINE]
        self._calls = [call for call in every if call.kernel.machine == OWN_MACHINE]
        self._definitions = _definitions(model)
        self._link = Link(self._sources, self._calls, checked_timeout(timeout))
        self._numbers = 0
        self._used: set[int] = set()
        self._logged: set[tuple[str, str]] = set()

    def __enter__(self) -> Kernels:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except XdlcError:
            if kind is None:
                raise

    # ------------------------------------------------------------------ what there is

    def knows(self, op: Op) -> bool:
        """Return whether an op has a kernel.

        Raises:
            XdlcError: If a library or file cannot be loaded.
        """
        return self._offer(op) is not None

    def origin(self, op: Op) -> str:
        """Return the source of the kernel of an op, or ""."""
        offer = self._offer(op)
        return offer.origin if offer is not None else ""

    def lacking(self, op: Op) -> tuple[str, str]:
        """Return problem and fix of an op without a kernel."""
        key, offers = (op.package, op.type), self._link.offers()
        title, elsewhere = f"{op.package}::{op.type}", offers.elsewhere(key)
        problem = f"there is no kernel for {title}"
        foreign = next((call for call in self._foreign if call.names(op)), None)
        if foreign is not None:
            fix = "convert the model again on a machine like this, or pass a library or a Python kernel"
            return f"{problem} on this machine, {OWN_MACHINE}: the model has {foreign.origin}", fix
        unfit = next((call for call in self._calls if call.names(op)), None)
        if unfit is not None:
            fix = "pass the folder kernel_meta of this DLC, or convert the model again"
            return f"{problem} with these shapes and parameters: {unfit.origin} supports other shapes", fix
        if elsewhere is not None:
            cores = ", ".join(elsewhere.cores)
            return (
                problem,
                f"build the kernel for the CPU: {elsewhere.origin} has the kernel only for {cores}",
            )
        near = nearest_names(title, offers.types())
        return problem, _give_library() + (f" ({near})" if near else "")

    def unused(self) -> list[str]:
        """Return the kernel files that were not used."""
        files = [str(source.path) for number, source in enumerate(self._sources) if number not in self._used]
        used = {call.path for number in self._used if (call := self._call(number)) is not None}
        return files + [str(source.path) for source in self._described if str(source.path) not in used]

    # ------------------------------------------------------------------ what it does

    def operation(self, op: Op) -> Operation:
        """Return an op, ready to run.

        Raises:
            UnsupportedOp: If there is no kernel for it.
            BackendError: If the kernel does not take it, or fails.
        """
        with self._link.held():
            offer = self._offer(op)
            if offer is None:
                raise missing(op, self)
            # Arrays of Python have no scale.
            python = self._is_python(offer.source)
            definition = self._definition(op.package, op.type)
            form, data = form_of(op, definition, reals=python)
            self._log_rounded(op, data, offer.origin)
            self._log_suffix(op.package, offer)
            shapes = self._link.offers().shapes((op.package, op.type))
            self._used.update(one.source for one in (offer, shapes) if one is not None)
            self._numbers += 1
            call = self._call(offer.source)
            return Operation(
                self._link,
                op,
                self._numbers,
                form,
                data,
                offer,
                shapes.source if shapes is not None else None,
                definition=definition,
                kernel=None if call is None else call.kernel,
                is_python=python,
            )

    def _log_suffix(self, package: str, offer: Offer) -> None:
        """Log once that a package's kernels are from a package with another suffix."""
        key = (package, offer.package)
        if offer.package not in ("", package) and key not in self._logged:
            self._logged.add(key)
            text = "%s: package %s runs the ops of package %s: the names differ only in the backend's suffix"
            _log.warning(text, offer.origin, offer.package, package)

    def _log_rounded(self, op: Op, data: StaticData, origin: str) -> None:
        """Log once per op type that a library receives rounded static data."""
        key = (op.package, op.type)
        if not data.rounded or key in self._logged:
            return
        self._logged.add(key)
        named = ", ".join(f"{name!r} rounded to {dtype} with one scale" for name, dtype in data.rounded)
        _log.warning(
            "%s: %s::%s gets %s: its definition allows no floats; Python kernels get unrounded values",
            origin,
            *key,
            named,
        )

    def infer(self, view: OpView, definition: OpDef | None = None) -> list[TensorSpec] | None:
        """Return the outputs of an op during conversion; None if they are not known.

        Args:
            definition: Its definition; default: that of the model.

        Raises:
            BackendError: If the shape function fails.
        """
        key = (view.package, view.type)
        with self._link.held():
            offer = self._link.offers().shapes(key)
            if offer is None:
                return None
            self._used.add(offer.source)
            definition = definition or self._definition(*key)
            form, data = form_of_view(view, definition)
            memory = data.memory()
            request = {
                "do": "infer",
                "shapes": offer.source,
                "form": form.words(),
                "size": memory.size,
            }
            place = f"op {view.name!r} ({view.package}::{view.type})"
            answer = self._link.ask(
                request, [memory.file], place=place, origin=offer.origin, doing="inferring its shapes"
            )
        return typed(specs_in(answer), view, definition)

    def close(self) -> None:
        """Release all operations, terminate the libraries, and end the child process.

        Raises:
            BackendError: If a library fails at it.
        """
        self._link.close()

    def _offer(self, op: Op) -> Offer | None:
        found = self._link.offers().kernel((op.package, op.type))
        if found is not None:
            return found
        fitting = [index for index, call in enumerate(self._calls) if call.names(op) and call.fits(op)]
        if len(fitting) > 1:
            raise BackendError(
                f"{len(fitting)} kernels fit op {op.name!r} ({op.package}::{op.type})",
                where=" and ".join(self._calls[index].path for index in fitting),
                fix=f"pass one file with {spell('udo_package_path')}",
            )
        for index in fitting:
            number, origin = len(self._sources) + index, self._calls[index].origin
            return Offer(number, origin, kernel=True, shapes=False, cores=("CPU",), is_explicit=False)
        return None

    def _call(self, source: int) -> Call | None:
        """Return the call of a compiled kernel by its offer's number, or None."""
        return self._calls[source - len(self._sources)] if source >= len(self._sources) else None

    def _is_python(self, source: int) -> bool:
        return source < len(self._sources) and self._sources[source].kind == "python"

    def _definition(self, package: str, type: str) -> OpDef | None:
        found = alike((package, type), self._definitions)
        return None if found is None else self._definitions[found]


def _definitions(model: Model | None) -> dict[tuple[str, str], OpDef]:
    if model is None or not any(name.startswith("xdlc.udo.") for name in model.records):
        return {}
    from xdlc.container import udo

    return {
        (package, opdef.name): on_cpu(opdef, collection) or opdef
        for package, collection in udo.definitions(model).items()
        for opdef in collection.opdefs
    }


def missing(op: Op, kernels: Kernels | None) -> UnsupportedOp:
    """Return the error of a UDO without a kernel."""
    unknown = f"there is no kernel for {op.package}::{op.type}", _give_library()
    problem, fix = unknown if kernels is None else kernels.lacking(op)
    return UnsupportedOp(problem, where=place_of(op), fix=fix, node=op.name, op=op.type)


def open_kernels(
    model: Model,
    udo_package_path: PathLike | Iterable[PathLike] | None = None,
    udo_timeout: float | None = None,
) -> Kernels:
    """Open the kernels of a model's UDOs; the caller closes them.

    Args:
        udo_package_path: Registration libraries, Python files with kernels, and folders ``kernel_meta``:
            paths, or a text with commas between them.
        udo_timeout: Seconds that each call of a kernel may take; default: 60.

    Raises:
        UsageError: If a file is not there, the time-out is not valid, or an option has nothing to work on.
        ContainerError: If a record of the model is damaged.
    """
    paths = paths_of(udo_package_path)
    if udo_timeout is not None and not paths:
        fix = f"give {spell('udo_package_path')}, or omit the time-out"
        raise UsageError(f"{spell('udo_timeout')} has no effect without kernels", fix=fix)
    return Kernels(paths, model=model, timeout=DEFAULT_TIMEOUT if udo_timeout is None else udo_timeout)
