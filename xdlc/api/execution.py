"""Running a model on this machine: on the CPU, by sections, on the vendor's emulation."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from xdlc.api.models import executable, loaded
from xdlc.api.options import Array, Notify, PathLike, by_name, given, verb
from xdlc.errors import ContainerError, UsageError, nearest_names, raise_all
from xdlc.ir import Graph, Model

if TYPE_CHECKING:
    from xdlc.runtime.cpu import CpuSession
    from xdlc.runtime.htp.session import HtpSession
    from xdlc.runtime.sections import SectionSession
    from xdlc.runtime.udo import Kernels


class Session:
    """A model that is ready to run, as often as wanted; ``xdlc.session`` makes one.

    Use it as a context manager, or call ``close``, which ends processes that were started for it.

    Attributes:
        graph: The graph that runs.
    """

    def __init__(self, engine: CpuSession | HtpSession | SectionSession, closing: ExitStack) -> None:
        self.graph: Graph = engine.graph
        self._engine = engine
        self._closing = closing

    def run(self, feeds: Mapping[str, Array], *, native: bool = False) -> dict[str, Array]:
        """Return the outputs by name.

        Args:
            feeds: Input arrays by name, in the layout of the graph's inputs.  A quantized input takes real
                numbers (any float type) or quantized values (its own type).
            native: Return outputs as quantized values instead of float32.

        Raises:
            UsageError: If an input is missing, unknown, or has another shape or type.
            BackendError: If the engine fails.
        """
        return self._engine.run(by_name(feeds, "feeds"), native=native)

    def close(self) -> None:
        """End the session."""
        self._closing.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._closing.__exit__(*raised)


_KERNEL_OPTIONS = ("udo_package_path", "allow_embedded_kernels", "udo_timeout")
_OF_RUNTIME = {
    "cpu": ("quantized", "plain", "threads", "loop_timeout", "outputs", *_KERNEL_OPTIONS, "kernels"),
    "htp": ("soc", "mode", "validate", "cpu_fallback", "notify", "outputs", *_KERNEL_OPTIONS, "kernels"),
    "aip": ("threads", "loop_timeout", "outputs", *_KERNEL_OPTIONS, "kernels"),
}
"""Options of each runtime."""


@verb
def session(
    model: Model | PathLike,
    runtime: str = "cpu",
    *,
    outputs: Sequence[str] = (),
    soc: str | None = None,
    mode: str = "permissive",
    validate: bool = False,
    cpu_fallback: bool = False,
    quantized: bool = True,
    plain: bool = False,
    use_aip: bool = False,
    threads: int | None = None,
    loop_timeout: float | None = None,
    udo_package_path: PathLike | Sequence[PathLike] | None = None,
    allow_embedded_kernels: bool = False,
    udo_timeout: float | None = None,
    kernels: Kernels | None = None,
    notify: Notify | None = None,
) -> Session:
    """Return a session that runs a model any number of times.

    Args:
        model: The model, or the path of a DLC.
        runtime: ``cpu`` (onnxruntime), ``htp`` (the vendor's emulation of a SoC: the model's cache that fits
            best, or the model compiled now), or ``aip`` (section by section, by its AIP record).
        outputs: Names of tensors to return beside the graph's outputs.
        soc: SoC to emulate (htp); default: that of the first usable cache, or else sm8650.
        mode: Which caches will do (htp): ``permissive``, ``strict`` or ``always_generate_new``.
        validate: Fail instead of compiling the model if no cache will do (htp).
        cpu_fallback: Run on the CPU what the SoC's HTP refuses (htp).
        quantized: Round to encodings (cpu); otherwise tensors with encodings run as floats.
        plain: Round tensors with encodings and compute in float between them, without HTP's own arithmetic
            (cpu).
        use_aip: Run section by section: on the runtime ``aip`` instead of ``cpu``.
        threads: Threads of one op (cpu, aip); default: one per core.
        loop_timeout: Seconds that each loop may take, at most 15 (cpu, aip); default: 2.
        udo_package_path: Registration libraries, or Python files with kernels, of UDOs.
        allow_embedded_kernels: Run kernels that the model carries.
        udo_timeout: Seconds that one execution of a UDO may take; default: 60.
        kernels: Kernels that are open already, which the caller closes, instead of those three.
        notify: Called with each notice, a line of text (htp).

    Raises:
        UsageError: If the runtime, or an option for it, is not known.
        UnsupportedOp: If an op does not run on the host, or a UDO has no kernel.
        ContainerError: If there is no AIP record, or it is damaged (aip).
        ConstraintError: If HTP refuses an op (htp).
        BackendError: If the engine is missing or fails.
    """
    options = given(session, locals())
    if runtime not in _OF_RUNTIME:
        raise UsageError(
            f"runtime {runtime!r} is not one of {', '.join(_OF_RUNTIME)}",
            fix=nearest_names(runtime, _OF_RUNTIME) or "take one of these",
        )
    if runtime != "htp" and options.pop("use_aip", False):
        runtime = "aip"
    for name in options:
        if name not in _OF_RUNTIME[runtime]:
            others = ", ".join(other for other, names in _OF_RUNTIME.items() if name in names)
            fix = f"omit it, or run on {others or 'cpu'}"
            raise UsageError(f"runtime {runtime} has no option {name!r}", fix=fix)
    with ExitStack() as stack:
        engine: CpuSession | HtpSession | SectionSession
        if runtime == "cpu":
            from xdlc.runtime.cpu import CpuSession

            whole = executable(model)
            with _kernels_to_own(whole, options) as opened:
                engine = CpuSession(whole, **options, **opened)
                for held in opened.values():
                    stack.push(held)
        elif runtime == "htp":
            engine = stack.enter_context(emulation(model, **options))
        else:
            engine = stack.enter_context(sections(model, **options))
        return Session(engine, stack.pop_all())


@verb
def run(
    model: Model | PathLike,
    feeds: Mapping[str, Array],
    runtime: str = "cpu",
    *,
    native: bool = False,
    outputs: Sequence[str] = (),
    soc: str | None = None,
    mode: str = "permissive",
    validate: bool = False,
    cpu_fallback: bool = False,
    quantized: bool = True,
    plain: bool = False,
    use_aip: bool = False,
    threads: int | None = None,
    loop_timeout: float | None = None,
    udo_package_path: PathLike | Sequence[PathLike] | None = None,
    allow_embedded_kernels: bool = False,
    udo_timeout: float | None = None,
    kernels: Kernels | None = None,
    notify: Notify | None = None,
) -> dict[str, Array]:
    """Return the outputs of a model on this machine, by name; for more than one run, see ``session``.

    Args:
        model: The model, or the path of a DLC.
        feeds: Input arrays by name, in the layout of the graph's inputs.
        runtime: ``cpu``, ``htp`` or ``aip``; it and all that follows as for ``session``.
        native: Return outputs as quantized values instead of float32.
        outputs: Names of tensors to return beside the graph's outputs.
        soc: SoC to emulate (htp).
        mode: Which caches will do (htp).
        validate: Fail instead of compiling the model (htp).
        cpu_fallback: Run on the CPU what HTP refuses (htp).
        quantized: Round to encodings (cpu).
        plain: Without HTP's own arithmetic (cpu).
        use_aip: Run section by section.
        threads: Threads of one op (cpu, aip).
        loop_timeout: Seconds that each loop may take (cpu, aip).
        udo_package_path: Kernels of UDOs.
        allow_embedded_kernels: Run kernels that the model carries.
        udo_timeout: Seconds that one execution of a UDO may take.
        kernels: Kernels that are open already.
        notify: Called with each notice (htp).

    Raises:
        UsageError: If the runtime, an option or an input name is not known.
        BackendError: If the engine is missing or fails.
        XdlcError: As ``session`` does.
    """
    options = given(run, locals())
    options.pop("native", None)
    with session(model, runtime, **options) as opened:
        return opened.run(feeds, native=native)


def sections(model: Model | PathLike, **options: Any) -> SectionSession:
    """Return the session of the runtime ``aip``; options are those of ``session``.

    Raises:
        ContainerError: If there is no AIP record, or it is damaged, or does not fit the model.
        XdlcError: As ``session`` does.
    """
    from xdlc.runtime.sections import SectionSession

    whole = executable(model)
    try:
        with _kernels_to_own(whole, options) as opened:
            found = SectionSession(whole, records=loaded(model).records, **options, **opened)
            found.own(*opened.values())
    except ContainerError as error:
        if not isinstance(model, Model):
            error.where = ": ".join(filter(None, (os.fspath(model), error.where)))
        raise
    return found


def emulation(model: Model | PathLike, soc: str | None = None, **options: Any) -> HtpSession:
    """Return the session of the runtime ``htp``; options are those of ``session``.

    The option ``name`` is the model's name in notices.

    Raises:
        XdlcError: As ``session`` does.
    """
    from xdlc.runtime.htp.session import HtpSession

    if options.pop("cpu_fallback", False):
        options["divide"] = _dividing(options.get("notify"))
    whole = executable(model)
    with _kernels_to_own(whole, options) as opened:
        found = HtpSession(whole, soc, **options, **opened)
        found.own(*opened.values())
    return found


def _dividing(notify: Notify | None) -> Callable[[Model, str], Model]:
    """Return a function that compiles the partitions of a model that HTP supports."""

    def divide(source: Model, name: str) -> Model:
        from xdlc.prepare.htp import prepare_all

        bare = Model(dict(source.graphs), source.metadata | {"cacheList": []})
        prepared = prepare_all(bare, [name], partition=True)
        if notify is not None:
            for text in prepared.notices:
                notify(text)
        raise_all(prepared.problems)
        return prepared.model

    return divide


@verb
def kernels(
    model: Model | PathLike,
    udo_package_path: PathLike | Sequence[PathLike] | None = None,
    allow_embedded_kernels: bool = False,
    udo_timeout: float | None = None,
) -> Kernels:
    """Return the kernels of a model's UDOs, for any number of sessions.

    They run in a process of their own, which ends when they are closed: use them as a context manager.

    Args:
        model: The model, or the path of a DLC.
        udo_package_path: Registration libraries, and Python files with functions that are marked as kernels.
        allow_embedded_kernels: Load kernels that the DLC carries.
        udo_timeout: Seconds that each call of a kernel may take; default: 60.

    Raises:
        UsageError: If a file is missing, the time-out is not valid, or an option has no effect.
    """
    from xdlc.runtime.udo.kernels import open_kernels

    return open_kernels(loaded(model), udo_package_path, allow_embedded_kernels, udo_timeout)


@contextmanager
def _kernels_to_own(model: Model, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Open the kernels that ``options`` name, and yield them as an option for a session that closes them.

    They are closed here on an error; files without a kernel for the model are logged.
    """
    named = {name: options.pop(name) for name in _KERNEL_OPTIONS if name in options}
    if not named:
        yield {}
        return
    if "kernels" in options:
        raise UsageError(f"kernels= is given beside {', '.join(named)}", fix="give one or the other")
    with ExitStack() as stack:
        opened = stack.enter_context(kernels(model, **named))
        yield {"kernels": opened}
        stack.pop_all()
    for path in opened.unused():
        logging.getLogger(__name__).warning("nothing of %s is used: the model has no op that it offers", path)
