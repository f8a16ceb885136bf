"""Capabilities of this machine: each runtime and architecture on one op."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from xdlc.errors import BackendError, ConstraintError, UsageError, XdlcError, nearest_names
from xdlc.ir import Graph, Model, ScaleOffset, Tensor, make_op, u32
from xdlc.ir.dtype import UFIXED8
from xdlc.opdefs.elementwise_enums import RELU
from xdlc.prepare.htp.compile_jobs import each_of, processors
from xdlc.targets import Soc, all_archs, all_socs, find_soc
from xdlc.version import VERSION

RUNTIMES = ("cpu", "htp", "aip")
PACKAGES = ("onnxruntime", "onnxruntime-qnn", "onnx", "numpy")
_ZERO = 128
_SHAPE = (1, 4, 4, 8)

Array = Any  # numpy.ndarray


@dataclass(frozen=True, slots=True)
class Trial:
    """Result of using something once.

    Attributes:
        target: What was tried: ``host``, ``library``, or an architecture with the SoC that stood for it.
        problem: Why it does not work; None if it does.
    """

    target: str
    problem: XdlcError | None


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime on this machine.

    Attributes:
        name: ``cpu``, ``htp`` or ``aip``.
        library: What computes, with its version.
        core: The core that it denotes.
        trials: What was tried.
    """

    name: str
    library: str
    core: str
    trials: tuple[Trial, ...]

    @property
    def problem(self) -> XdlcError | None:
        """Why nothing that was tried works; None if something does."""
        problems = [trial.problem for trial in self.trials if trial.problem is not None]
        return problems[0] if len(problems) == len(self.trials) else None


@dataclass(frozen=True, slots=True)
class Machine:
    """What this machine can do.

    Attributes:
        system: Operating system and processor.
        processors: Processors that this process may use.
        versions: Version by name of what matters; None if it is not installed.
        runtimes: The runtimes requested.
        socs: The SoCs requested.
    """

    system: str
    processors: int
    versions: dict[str, str | None]
    runtimes: tuple[Runtime, ...]
    socs: tuple[Soc, ...]


def check_platform(runtimes: Sequence[str] = RUNTIMES, soc: str | None = None) -> Machine:
    """Return what this machine can do, after trying it.

    Args:
        runtimes: Names of the runtimes to try.
        soc: Name of the one SoC to report on and to emulate; default: all of them, and one of each
            architecture.

    Raises:
        UsageError: If a runtime or the SoC is not known.
    """
    tried: dict[str, Callable[[Soc | None], Runtime]] = {"cpu": _cpu, "htp": _htp, "aip": _aip}
    for name in runtimes:
        if name not in tried:
            fix = nearest_names(name, tried) or f"runtimes: {', '.join(tried)}"
            raise UsageError(f"there is no runtime {name!r}", fix=fix)
    asked = find_soc(soc) if soc is not None else None
    versions = {"python": platform.python_version(), "xdlc": VERSION} | {
        package: _version(package) for package in PACKAGES
    }
    return Machine(
        f"{platform.system()} {platform.machine()}",
        processors(),
        versions,
        tuple(tried[name](asked) for name in runtimes),
        (asked,) if asked is not None else all_socs(),
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _probe() -> Model:
    """Return a quantized graph of one Relu."""
    graph, encoding = Graph("probe"), ScaleOffset(1 / 64, -_ZERO)
    x = graph.add_input(Tensor("x", _SHAPE, UFIXED8, encoding))
    y = Tensor("y", _SHAPE, UFIXED8, encoding)
    graph.append(make_op(graph, "ElementWiseNeuron", [x], [y], {"operation": u32(RELU)}, name="relu"))
    graph.add_output(y)
    return Model({graph.name: graph})


def _tried(target: str, run: Callable[[Model, Array], Array]) -> Trial:
    """Run the probe and look at what comes out."""
    import numpy

    stored = numpy.arange(_ZERO - 64, _ZERO + 64, dtype=numpy.uint8).reshape(_SHAPE)
    try:
        found = run(_probe(), stored)
        if not numpy.array_equal(found, numpy.maximum(stored, _ZERO)):
            raise BackendError(
                "computes wrong numbers for a graph of one Relu", fix="reinstall it, and report this"
            )
    except XdlcError as error:
        return Trial(target, error)
    except ImportError as error:
        return Trial(target, BackendError(f"cannot be loaded: {error}", fix="reinstall it"))
    return Trial(target, None)


def _cpu(_soc: Soc | None) -> Runtime:
    def run(model: Model, stored: Array) -> Array:
        from xdlc.runtime import CpuSession

        return CpuSession(model).run({"x": stored}, native=True)["y"]

    library = f"onnxruntime {_version('onnxruntime') or 'not installed'}"
    return Runtime("cpu", library, f"{processors()} processors of this machine", (_tried("host", run),))


def _aip(soc: Soc | None) -> Runtime:
    def run(model: Model, stored: Array) -> Array:
        from xdlc.prepare import hta
        from xdlc.runtime.sections import SectionSession

        if soc is not None and not soc.hta:
            raise ConstraintError(
                f"{soc.name} has no HTA",
                fix="choose one of " + ", ".join(s.name for s in all_socs() if s.hta),
            )
        return SectionSession(hta.prepare(model).model).run({"x": stored}, native=True)["y"]

    core = "sub-graphs of sections on HTA, on this machine; HTA's own code does not run here"
    return Runtime("aip", f"xdlc {VERSION}", core, (_tried("host", run),))


def _htp(soc: Soc | None) -> Runtime:
    from xdlc.runtime.htp import build_id

    package = _version("onnxruntime-qnn")
    library = f"onnxruntime-qnn {package}" if package else "onnxruntime-qnn is not installed"
    core = "the vendor's emulation of the DSP"
    try:
        library += f", QNN {build_id()}"
    except XdlcError as error:
        return Runtime("htp", library, core, (Trial("library", error),))
    socs = {_target(found): found for found in ([soc] if soc is not None else _one_of_each())}
    trials = dict(
        each_of(
            list(socs),
            lambda name: _emulated(name, socs[name]),
            jobs=processors(),
            started=lambda _name: None,
            give_up=lambda: None,
        )
    )
    return Runtime("htp", library, core, tuple(_kept(trials[name]) for name in socs))


def _kept(outcome: Trial | Exception) -> Trial:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _emulated(target: str, soc: Soc) -> Trial:
    def run(model: Model, stored: Array) -> Array:
        from xdlc.runtime.htp.worker_session import WorkerSession

        if not soc.has_htp:
            raise ConstraintError(
                f"{soc.name} has no HTP: its DSP is of architecture {soc.capabilities.name}",
                fix="choose a SoC from v68 on",
            )
        with WorkerSession.of_model(model, soc.name) as served:
            return served.run({"x": stored}, native=True)["y"]

    return _tried(target, run)


def _one_of_each() -> Iterator[Soc]:
    """Yield one capable SoC of each HTP architecture, the first of its kind."""
    for arch in all_archs():
        socs = [soc for soc in all_socs() if soc.arch == arch.number and soc.has_htp]
        if socs:
            yield max(socs, key=lambda soc: (soc.fp16, soc.vtcm_mb or 0))


def _target(soc: Soc) -> str:
    return f"{soc.capabilities.name} ({soc.name})"
