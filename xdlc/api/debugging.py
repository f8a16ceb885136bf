"""Debugger: the first op that two engines compute in different ways."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from xdlc.api.models import executable, load, loaded
from xdlc.api.verbs import Array, verb
from xdlc.errors import BackendError, UsageError
from xdlc.ir import Model
from xdlc.options import PathLike, spell
from xdlc.options.debugging import SHELL_LINE, DebugOptions

if TYPE_CHECKING:
    from xdlc.compare.engines import Engine, Values
    from xdlc.compare.first_wrong import Row
    from xdlc.debug.report import DebugReport

SOC = "sm8650"
SAMPLES, MEMORY = 4, 384


@verb
def debug(
    model: Model | PathLike,
    samples: Iterable[Mapping[str, Array] | Array] | PathLike,
    **options: Unpack[DebugOptions],
) -> DebugReport:
    """Compare two engines tensor by tensor, and name the first op that is wrong.

    Args:
        model: The model, or the path of a DLC.
        samples: Feeds, as for ``quantize``.
        **options: The engines, and what counts as wrong.

    Raises:
        UsageError: If an engine is not known or not installed, or does not fit the model.
        BackendError: If an engine fails.
        StorageError: If a file cannot be read.
    """
    from xdlc.compare.engines import computed
    from xdlc.compare.first_wrong import compare, first_wrong
    from xdlc.debug.report import DebugReport
    from xdlc.quant.samples import read_samples
    from xdlc.runtime.states import next_values

    source = executable(loaded(model), None if isinstance(model, Model) else os.fspath(model))
    graph = source.main
    named = read_samples(samples, graph, optional=next_values(source))
    most = options.get("samples_most", SAMPLES)
    stored = None if isinstance(samples, str | os.PathLike) else list(islice(named, most))

    def each() -> Iterator[Values]:
        return islice(iter(named if stored is None else stored), most)

    first = next(each(), None)
    if first is None:
        raise UsageError("there are no samples", fix="name at least one")
    reference, candidate = _chosen(source, options)
    with ExitStack() as stack:
        engines = []
        for text in (reference, candidate):
            engine = engine_of(text, source, first, options)
            if hasattr(engine, "close"):
                stack.callback(engine.close)
            engines.append(engine)
        try:
            rows = compare(
                engines[0],
                engines[1],
                getattr(engines[1], "model", source),
                each,
                least=options.get("least"),
                metric=_metric(options.get("metric")),
                memory=options.get("memory", MEMORY) << 20,
            )
        except BackendError as error:
            _reproduce(engines[1], first, options, error)
            raise
        _reproduce(engines[1], first, options, first_wrong(rows))
        count = sum(1 for _ in each())
        outputs = tuple(tensor.name for tensor in graph.outputs)
        missing = len(set(computed(graph)) - {row.tensor for row in rows})
        return DebugReport(engines[0].title, engines[1].title, count, tuple(rows), outputs, missing)


def _reproduce(
    engine: Engine, feeds: Values, options: DebugOptions, fault: Row | BackendError | None
) -> None:
    """Write the smallest part of the candidate's model with its fault, if requested."""
    from xdlc.compare.engines import HostEngine, HtpEngine
    from xdlc.debug import reproducer

    folder = options.get("reproducer")
    if folder is None or fault is None or not isinstance(engine, HostEngine | HtpEngine):
        return
    model = engine.model
    host = HostEngine(model)

    def feeds_of(names: Sequence[str]) -> dict[str, Array]:
        inner = [name for name in names if name not in feeds]
        return {name: feeds[name] for name in names if name in feeds} | host.values(feeds, inner)

    shows: reproducer.Shows | None = None
    part = model
    if not isinstance(fault, BackendError):
        part = reproducer.part_of(model, [op for op in model.main.ops if op.name == fault.op])
    if isinstance(engine, HtpEngine):
        shows = (
            reproducer.fails(engine.soc, feeds_of, fault)
            if isinstance(fault, BackendError)
            else reproducer.differs(engine.soc, feeds_of, fault.least)
        )
    elif isinstance(fault, BackendError):
        return
    notify = options.get("notify") or (lambda text: None)
    if shows is not None and (part is model or not shows(part, reproducer.WHOLE)):
        least = reproducer.reduced(model, shows)
        if least is None:
            notify("no reproducer: the fault depends on the tensors that are compared, outputs on HTP")
            return
        part = least.model
    inputs = feeds_of([tensor.name for tensor in part.main.inputs])
    if options.get("noise"):
        noisy = reproducer.with_noise(part)
        if shows is None or shows(noisy, reproducer.WHOLE):
            part = noisy
        else:
            notify("the weights of the part are the network's: with noise it does not show the fault")
    line = SHELL_LINE.format(f"htp:{engine.soc}" if isinstance(engine, HtpEngine) else "cpu")
    paths = reproducer.write(part, Path(folder), inputs, line)
    notify(f"{len(part.main)} op(s) still show it: {paths[0].parent}")


def _chosen(model: Model, options: DebugOptions) -> tuple[str, str]:
    """Return the engines in words; omitted ones follow from the model and the SoC.

    Raises:
        UsageError: If there is nothing to compare.
    """
    reference, candidate, soc = (options.get(name) for name in ("reference", "candidate", "soc"))
    candidate = os.fspath(candidate) if candidate else ("htp" if soc else "cpu")  # type: ignore[call-overload]
    if reference:
        return os.fspath(reference), candidate  # type: ignore[call-overload]
    if candidate != "cpu":
        return "cpu", candidate
    if any(tensor.dtype.is_fixed for tensor in model.main.tensors.values()):
        return "float", candidate
    fix = f"name the source model by {spell('reference')}, or a SoC by {spell('soc')}"
    raise UsageError("a float DLC on this machine has nothing to be compared with", fix=fix)


def engine_of(text: str, model: Model, feeds: Values, options: DebugOptions) -> Engine:
    """Return the engine that a text names.

    Raises:
        UsageError: If it names none.
    """
    from xdlc.compare.engines import HostEngine, HtpEngine
    from xdlc.debug.frameworks import FRAMEWORKS
    from xdlc.debug.raw_results import RawResults
    from xdlc.debug.source import SourceEngine

    kind, _, rest = text.partition(":")
    weights = os.fspath(options.get("weights") or "")
    if text in ("cpu", "float"):
        return HostEngine(model, quantized=text == "cpu")
    if kind == "htp":
        return HtpEngine(model, rest or options.get("soc") or SOC)
    if kind in FRAMEWORKS.all():
        return SourceEngine(kind, rest, model, feeds, weights)
    if not os.path.exists(text):
        fix = (
            f"name a file, a folder, cpu, float, htp:SOC, or FILE after {', '.join(sorted(FRAMEWORKS.all()))}"
        )
        raise UsageError(f"{text!r} is no engine", fix=fix)
    framework = _framework_of(text)
    if framework is not None:
        return SourceEngine(framework, text, model, feeds, weights)
    if os.path.isdir(text):
        return RawResults(text, model)
    engine = HostEngine(executable(load(text), text))
    engine.title = f"host ({os.path.basename(text)})"
    return engine


def _framework_of(path: str) -> str | None:
    """Return the framework of a source model by its content; None for another file."""
    from xdlc.converter import formats

    names = {
        formats.ONNX: "onnx",
        formats.TFLITE: "tflite",
        formats.TORCH_EXPORT: "pytorch",
        formats.KERAS: "tensorflow",
        formats.SAVED_MODEL: "tensorflow",
        formats.GRAPH_DEF: "tensorflow",
        formats.CAFFE: "caffe",
    }
    source_format = formats.recognize(path)
    return None if source_format is None else names.get(source_format)


def _metric(metric: Any) -> Callable[..., float] | None:
    """Return the user's metric of two arrays."""
    if not isinstance(metric, str):
        return metric  # type: ignore[no-any-return]
    from xdlc.quant.engine import load_function

    return load_function(metric, "metric")
