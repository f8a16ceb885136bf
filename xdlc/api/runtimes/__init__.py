"""Runtimes: what runs models on this machine, one a module, and what works here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from xdlc.api.verbs import verb
from xdlc.errors import BackendError, UsageError, XdlcError, nearest_names
from xdlc.ir import Graph, Model, ScaleOffset, Tensor, make_op, u32
from xdlc.ir.dtype import UFIXED8
from xdlc.opdefs.elementwise_enums import RELU
from xdlc.options import options_of, spell
from xdlc.options.running import KernelOptions
from xdlc.registry import Registry
from xdlc.targets import Soc, all_socs, find_soc
from xdlc.version import VERSION

PACKAGES = ("onnxruntime", "onnxruntime-qnn", "onnx", "numpy")
_ZERO = 128
_SHAPE = (1, 4, 4, 8)


@dataclass(frozen=True, slots=True)
class Trial:
    """Result of one trial run.

    Attributes:
        target: What was tried: ``host``, ``library``, or an architecture with the SoC that stood for it.
        problem: Why it does not work; None if it does.
    """

    target: str
    problem: XdlcError | None


@dataclass(frozen=True, slots=True)
class RuntimeState:
    """A runtime on this machine.

    Attributes:
        name: Its name.
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
        """Problem of the first trial if all trials failed, else None."""
        problems = [trial.problem for trial in self.trials if trial.problem is not None]
        return problems[0] if len(problems) == len(self.trials) else None


@dataclass(frozen=True, slots=True)
class Machine:
    """Capabilities of this machine.

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
    runtimes: tuple[RuntimeState, ...]
    socs: tuple[Soc, ...]


class Engine(Protocol):
    """An open runtime with a model."""

    graph: Graph

    def run(self, feeds: Mapping[str, Any], *, native: bool = False) -> dict[str, Any]:
        """Return the outputs by name."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime, which a module of this package registers.

    Attributes:
        name: Its name in ``run``, ``Session`` and ``--runtime``.
        options: Names of the options of ``run`` that it has.
        open: Returns the engine of a model as a context manager. Gets the place of the model for messages,
            None if it has none, the options that were stated, and where ``times_ops`` a ``profiler``.
        examine: Tries the runtime, by its name, on a graph of one op, as a SoC or as one of each kind.
        describe: Returns lines on what an open engine is.
        times_ops: Whether it measures the time of each op.
        compiles: Whether it compiles models, which takes long, and caches can be stored.
        at_a_time: Runs that work at a time if several threads start them.
        end: Ends the runs of an open engine at once, which they fail by.
    """

    name: str
    options: frozenset[str]
    open: Callable[..., AbstractContextManager[Engine]]
    examine: Callable[[str, Soc | None], RuntimeState]
    describe: Callable[[Any], tuple[str, ...]] = lambda _engine: ()
    times_ops: bool = False
    compiles: bool = False
    at_a_time: int = 1
    end: Callable[[Any], None] = lambda _engine: None


RUNTIMES: Registry[str, Runtime] = Registry("xdlc.api.runtimes", "runtime")
SHARED = frozenset({"outputs", "loop_timeout", "kernels", *options_of(KernelOptions)})
"""Options that every runtime has."""


def add_runtime(runtime: Runtime) -> None:
    """Register a runtime under its name."""
    RUNTIMES.add(runtime.name, runtime)


def find_runtime(name: str) -> Runtime:
    """Return the runtime of a name.

    Raises:
        UsageError: If no runtime has the name.
    """
    runtime = RUNTIMES.find(name)
    if runtime is None:
        listed = f"one of {', '.join(sorted(RUNTIMES.all()))}"
        fix = nearest_names(name, RUNTIMES.all()) or f"pass {listed}"
        raise UsageError(f"runtime {name!r} is not {listed}", fix=fix)
    return runtime


def runtime_with(name: str, options: Mapping[str, Any]) -> Runtime:
    """Return the runtime of a name, which must have the options.

    Args:
        name: Name of the runtime; ``cpu`` with the option ``use_aip`` means ``aip``.
        options: Options of ``run`` by name.  Other names have no effect.

    Raises:
        UsageError: If no runtime has the name, or it lacks an option.
    """
    chosen = find_runtime("aip" if name == "cpu" and options.get("use_aip") else name)
    for option in options:
        runtimes = sorted(name for name, runtime in RUNTIMES.all().items() if option in runtime.options)
        if runtimes and chosen.name not in runtimes:
            choices = " or ".join(spell("runtime", runtime) for runtime in runtimes)
            fix = f"add {choices}, or omit {spell(option)}"
            raise UsageError(f"{spell(option)} requires {choices}", fix=fix)
    return chosen


@verb
def check_platform(runtimes: Sequence[str] | None = None, soc: str | None = None) -> Machine:
    """Try the runtimes of this machine; return its capabilities.

    Args:
        runtimes: Names of the runtimes to try.  Default: all runtimes.
        soc: Name of the SoC to list and to emulate.  Default: list all SoCs, and emulate a SoC of each
            architecture.

    Raises:
        UsageError: If xdlc does not know a runtime or the SoC.
    """
    import platform

    from xdlc.worker.limits import processors

    chosen = [find_runtime(name) for name in (sorted(RUNTIMES.all()) if runtimes is None else runtimes)]
    asked = find_soc(soc) if soc is not None else None
    versions = {"python": platform.python_version(), "xdlc": VERSION} | {
        package: version_of(package) for package in PACKAGES
    }
    return Machine(
        f"{platform.system()} {platform.machine()}",
        processors(),
        versions,
        tuple(runtime.examine(runtime.name, asked) for runtime in chosen),
        (asked,) if asked is not None else all_socs(),
    )


def version_of(package: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

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


def tried(target: str, run: Callable[[Model, Any], Any]) -> Trial:
    """Run the probe and compare its output with the expected one."""
    import numpy

    stored = numpy.arange(_ZERO - 64, _ZERO + 64, dtype=numpy.uint8).reshape(_SHAPE)
    try:
        found = run(_probe(), stored)
        if not numpy.array_equal(found, numpy.maximum(stored, _ZERO)):
            raise BackendError(
                "the runtime computes wrong numbers for a Relu", fix="reinstall the package, or report a bug"
            )
    except XdlcError as error:
        return Trial(target, error)
    except ImportError as error:
        return Trial(target, BackendError(f"cannot be loaded: {error}", fix="reinstall the package"))
    return Trial(target, None)
