"""Kernels of UDOs for sessions."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from xdlc.errors import BackendError, UnsupportedOp, UsageError, XdlcError, nearest_names
from xdlc.ir import Model, Op
from xdlc.opdefs.backend_view import on_cpu
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.runtime.udo.activations import place_of, typed
from xdlc.runtime.udo.build_descriptor import form_of, form_of_view
from xdlc.runtime.udo.descriptor import specs_in
from xdlc.runtime.udo.operation import Operation
from xdlc.runtime.udo.sources import (
    DEFAULT_TIMEOUT,
    NOT_EMBEDDED,
    OWN_MACHINE,
    Embedded,
    Offer,
    PathLike,
    alike,
    checked_timeout,
    embedded_in,
    paths_of,
    sources_of,
)
from xdlc.runtime.udo.worker_client import Link

if TYPE_CHECKING:
    from xdlc.opdefs.model import OpDef
    from xdlc.runtime.udo.static_data import StaticData

_log = logging.getLogger(__name__)
LIBRARY_NEEDED = "give the registration library or Python file that has it with --udo_package_path"


class Kernels:
    """Libraries, Python files and embedded kernels, in a child process of their own.

    The process is started with the first request.  One that dies is replaced, a few times.
    Any number of sessions and threads may use the same object.  One operation runs at a time, so that a crash
    is that of one operation; kernels that are to run at once want an object each.  Use as a context manager,
    or call ``close``.

    Args:
        paths: Registration libraries, and Python files with kernels or shape functions.
        model: The model; its definitions name operands and enumerators.
        embedded: Whether kernels that the model carries may be loaded.
        timeout: Seconds that each call may take.

    Raises:
        UsageError: If there is no such file, or the time-out is not valid.
        ContainerError: If a record of the model is damaged.
    """

    def __init__(
        self,
        paths: PathLike | Iterable[PathLike] | None = (),
        *,
        model: Model | None = None,
        embedded: bool = False,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self._sources = sources_of(paths_of(paths))
        self._carried = embedded_in(model)
        self._embedded = [held for held in self._carried if embedded and held.fits]
        self._definitions = _definitions(model)
        self._link = Link(self._sources, self._embedded, checked_timeout(timeout))
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
        """Return whether there is a kernel for an op.

        Raises:
            XdlcError: If a library or file cannot be loaded.
        """
        return self._offer(op) is not None

    def origin(self, op: Op) -> str:
        """Return the source of the kernel of an op, or ""."""
        offer = self._offer(op)
        return offer.origin if offer is not None else ""

    def missing(self, op: Op) -> UnsupportedOp:
        """Return the error of an op without a kernel."""
        return missing(op, self)

    def lacking(self, op: Op) -> tuple[str, str]:
        """Return problem and fix of an op without a kernel."""
        key, offers = (op.package, op.type), self._link.offers()
        title, elsewhere = f"{op.package}::{op.type}", offers.elsewhere(key)
        carried = [kernel for kernel in self._carried if _is_for(kernel, op)]
        problem = f"there is no kernel for {title}"
        if any(kernel.fits for kernel in carried):  # and may not be loaded
            origin = next(kernel.origin for kernel in carried if kernel.fits)
            return problem, (
                f"give --allow_embedded_kernels if you trust the DLC, which carries {origin}, "
                "or a library or Python file with --udo_package_path"
            )
        if carried:
            origins = " and ".join(kernel.origin for kernel in carried)
            return (
                f"there is no kernel for {title} on this machine, {OWN_MACHINE}: there is {origins}",
                NOT_EMBEDDED,
            )
        if elsewhere is not None:
            return (
                problem,
                f"build it for the CPU: {elsewhere.origin} has it for {', '.join(elsewhere.cores)} only",
            )
        near = nearest_names(title, offers.types())
        return problem, LIBRARY_NEEDED + (f" ({near})" if near else "")

    def unused(self) -> list[str]:
        """Return the files of which nothing was used."""
        return [str(source.path) for at, source in enumerate(self._sources) if at not in self._used]

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
                raise self.missing(op)
            # Arrays of Python have no scale.
            python = self._is_python(offer.source)
            form, data = form_of(op, self._definition(op.package, op.type), reals=python)
            self._log_rounded(op, data, offer.origin)
            self._log_suffix(op.package, offer)
            shapes = self._link.offers().shapes((op.package, op.type))
            self._used.update(one.source for one in (offer, shapes) if one is not None)
            self._numbers += 1
            number = offer.source - len(self._sources)
            return Operation(
                self._link,
                op,
                self._numbers,
                form,
                data,
                offer,
                shapes.source if shapes is not None else None,
                kernel=self._embedded[number].kernel if number >= 0 else None,
                is_python=python,
            )

    def _log_suffix(self, package: str, offer: Offer) -> None:
        """Log once that the kernels of a package are of one with another suffix."""
        key = (package, offer.package)
        if offer.package not in ("", package) and key not in self._logged:
            self._logged.add(key)
            text = "%s: package %s executes the ops of %s: their names differ in the backend's suffix alone"
            _log.warning(text, offer.origin, offer.package, package)

    def _log_rounded(self, op: Op, data: StaticData, origin: str) -> None:
        """Log once for an op type that a library gets rounded static data."""
        key = (op.package, op.type)
        if not data.rounded or key in self._logged:
            return
        self._logged.add(key)
        named = ", ".join(f"{name!r} rounded, as {dtype} of one scale" for name, dtype in data.rounded)
        _log.warning(
            "%s: %s::%s gets %s: its definition accepts no floats there; Python kernels get them unrounded",
            origin,
            *key,
            named,
        )

    def infer(self, view: OpView, definition: OpDef | None = None) -> list[TensorSpec] | None:
        """Return the outputs of an op under conversion, or None if they are not known.

        Args:
            view: The op.
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
        fitting = [index for index, held in enumerate(self._embedded) if _is_for(held, op)]
        if len(fitting) > 1:
            raise BackendError(
                f"the DLC carries {len(fitting)} kernels for op {op.name!r} ({op.package}::{op.type})",
                where=self._embedded[fitting[0]].origin,
                fix="give a library or a Python kernel with --udo_package_path",
            )
        for index in fitting:
            origin = self._embedded[index].origin
            return Offer(len(self._sources) + index, origin, True, False, ("CPU",), False)
        return None

    def _is_python(self, source: int) -> bool:
        return source < len(self._sources) and self._sources[source].kind == "python"

    def _definition(self, package: str, type: str) -> OpDef | None:
        found = alike((package, type), self._definitions)
        return None if found is None else self._definitions[found]


def _is_for(held: Embedded, op: Op) -> bool:
    return (held.package, held.type) == (op.package, op.type) and op.name in held.ops


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
    unknown = f"there is no kernel for {op.package}::{op.type}", LIBRARY_NEEDED
    problem, fix = unknown if kernels is None else kernels.lacking(op)
    return UnsupportedOp(problem, where=place_of(op), fix=fix, node=op.name, op=op.type)


def open_kernels(
    model: Model,
    udo_package_path: PathLike | Iterable[PathLike] | None = None,
    allow_embedded_kernels: bool = False,
    udo_timeout: float | None = None,
) -> Kernels:
    """Open the kernels of the UDOs of a model; close them in the end.

    Args:
        udo_package_path: Registration libraries and Python files with kernels: paths, or a text with commas
            between them.
        allow_embedded_kernels: Load kernels that the model carries.
        udo_timeout: Seconds that each call of a kernel may take; default: 60.

    Raises:
        UsageError: If a file is not there, the time-out is not valid, or an option has nothing to work on.
        ContainerError: If a record of the model is damaged.
    """
    if allow_embedded_kernels and not embedded_in(model):
        raise UsageError(
            "the model carries no kernels that --allow_embedded_kernels could allow",
            fix="omit the option",
        )
    paths = paths_of(udo_package_path)
    if udo_timeout is not None and not paths and not allow_embedded_kernels:
        raise UsageError(
            "--udo_timeout has no effect without kernels",
            fix="give --udo_package_path or --allow_embedded_kernels, or omit it",
        )
    seconds = DEFAULT_TIMEOUT if udo_timeout is None else udo_timeout
    return Kernels(paths, model=model, embedded=allow_embedded_kernels, timeout=seconds)
