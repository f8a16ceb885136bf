"""Comparison of source, float and quantized models, and of runs on HTP."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from xdlc.api.debugging import engine_of, framework_of
from xdlc.api.models import executable
from xdlc.api.verbs import Array, verb
from xdlc.errors import UsageError
from xdlc.ir import Graph, Model
from xdlc.options import PathLike, Step

if TYPE_CHECKING:
    from xdlc.compare.engines import Engine, Values

MOST = 1000
"""Samples that are compared at most."""


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """Figures of one model.  The reference model has no figures of a difference.

    Attributes:
        title: The model and its engine.
        bytes: Size of the model's file in bytes.
        samples: Number of compared samples.
        db: Mean SQNR of the outputs in dB over all samples.  For a last Softmax, xdlc measures its input.
        equal: Share (0 to 1) of rows with the same largest element, or of equal labels.  None: no output
            has classes or labels.
        rows: Number of rows that ``equal`` compares.
        largest: Largest absolute difference of an output value.
        largest_in: Name of the output with the largest difference.
        words: Task figure of the worst output, as text.  Outputs with classes come first.
        score: Result of your metric; None without a metric.
    """

    title: str
    bytes: int
    samples: int
    db: float | None = None
    equal: float | None = None
    rows: int = 0
    largest: float | None = None
    largest_in: str = ""
    words: str = ""
    score: float | None = None


@verb
def compare(
    models: Sequence[PathLike],
    samples: Iterable[Mapping[str, Array] | Array] | PathLike,
    *,
    metric: Callable[[Any], float] | str | None = None,
    soc: str | None = None,
    step: Step | None = None,
) -> tuple[ModelFigures, ...]:
    """Run models on the same samples, and return a row of figures for each model.

    Args:
        models: Paths of source models and DLCs of one network, at least one DLC.  The first model is
            the reference.
        samples: Samples of the inputs, in any format that ``quantize`` reads.  xdlc compares at most 1,000
            samples.
        metric: Your metric: a function like ``evaluate`` of ``quantize``, or ``FILE.py:FUNCTION``.
        soc: Also run quantized DLCs on the emulation of this SoC.
        step: Called as ``step(title, done, total)`` with the number of finished runs and of all runs.  A
            ``total`` of 0 means that xdlc does not know the number.

    Returns:
        The figures of each model, in the order of the models.  ``db`` is the mean SQNR of the outputs in dB,
        ``equal`` the share of equal answers (0 to 1), and ``largest`` the largest absolute error.

    Raises:
        UsageError: If no model is a DLC, samples are missing, or the models differ in their outputs.
        BackendError: If an engine fails.
        ContainerError: If a DLC is damaged.
        StorageError: If a file cannot be read.
    """
    from xdlc.compare.engines import HostEngine, HtpEngine
    from xdlc.ir.files import check_readable
    from xdlc.quant.engine import checked
    from xdlc.quant.judge import channels_last, judged_by
    from xdlc.quant.samples import read_samples

    paths = [os.fspath(path) for path in models]
    for path in paths:
        if not os.path.isdir(path):
            check_readable(path)
    dlcs = {path: executable(path) for path in paths if os.path.isfile(path) and framework_of(path) is None}
    if not dlcs:
        raise UsageError(
            "none of the models is a DLC", where=", ".join(paths), fix="run `xdlc convert`, and add the DLC"
        )
    runs = list(_runs(paths, dlcs, soc))
    if len(runs) < 2:
        fix = "add a second model; or name a SoC for a quantized DLC"
        raise UsageError("xdlc compares two or more models, but you passed one", where=paths[0], fix=fix)
    base = next(iter(dlcs.values()))
    graph = base.main
    feeds = list(islice(read_samples(samples, graph), MOST))
    if not feeds:
        raise UsageError("the list of samples is empty", fix="add at least one sample")
    outputs = [tensor.name for tensor in graph.outputs]
    inner = (
        judged_by(tensor).name for tensor in graph.outputs if judged_by(tensor) is not channels_last(tensor)
    )
    names = list(dict.fromkeys([*inner, *outputs]))
    evaluate = None if metric is None else checked(metric, "metric")
    reference: list[Values] = []
    rows: list[ModelFigures] = []
    for path, on_htp in runs:
        engine: Engine = HtpEngine(dlcs[path], soc or "") if on_htp else engine_of(path, base, feeds[0], {})
        with ExitStack() as stack:
            if hasattr(engine, "close"):
                stack.callback(engine.close)
            if isinstance(engine, HostEngine):
                engine.title = os.path.basename(path)
            if not rows:  # a source model may lack the input of a Softmax
                names = [name for name in names if name in outputs or name in engine.names]
            missing = [name for name in names if name not in engine.names]
            if missing:
                problem = f"{engine.title} has no output {missing[0]!r} of that shape"
                raise UsageError(problem, where=path, fix="compare models of one network")
            title = f"{os.path.basename(path)} on {engine.title}" if on_htp else engine.title
            values: list[Values] = []
            for number, sample in enumerate(feeds):
                if step is not None:
                    step(title, number, len(feeds))
                values.append(_with_judged(graph, engine.values(sample, names, number)))
            score = None if evaluate is None else evaluate(_run(engine, outputs))
        size = os.path.getsize(path) if os.path.isfile(path) else 0
        row = ModelFigures(title, size, len(feeds), score=score)
        rows.append(_judged(row, graph, reference, values) if rows else row)
        reference = reference or values
    return tuple(rows)


def _runs(paths: Sequence[str], dlcs: Mapping[str, Model], soc: str | None) -> Iterable[tuple[str, bool]]:
    """Yield each model, and with a SoC each quantized DLC once more for the emulation."""
    for path in paths:
        yield path, False
        tensors = dlcs[path].main.tensors.values() if path in dlcs else ()
        if soc is not None and any(tensor.dtype.is_fixed for tensor in tensors):
            yield path, True


def _run(engine: Engine, outputs: Sequence[str]) -> Callable[[Values], dict[str, Array]]:
    return lambda feeds: engine.values(feeds, outputs)


def _with_judged(graph: Graph, values: dict[str, Array]) -> Values:
    """Return values with one for each tensor that an output is judged by."""
    import numpy as np

    from xdlc.quant.judge import channels_last, judged_by

    for tensor in graph.outputs:
        value = values[tensor.name]
        last = value if channels_last(tensor) is tensor else np.moveaxis(value, 1, -1)
        values.setdefault(judged_by(tensor).name, last)
    return values


def _judged(
    row: ModelFigures, graph: Any, reference: Sequence[Values], results: Sequence[Values]
) -> ModelFigures:
    """Return the figures of a model with those of its difference from the reference."""
    import numpy as np

    from xdlc.compare.figures import Noise
    from xdlc.quant.judge import OutputJudge, judged_by, parts_of_outputs
    from xdlc.quant.op_specs import is_real

    verdicts = OutputJudge(parts_of_outputs(graph, reference, {}), reference).score(results).verdicts
    classes = [verdict for verdict in verdicts if verdict.equal is not None]
    worst = min(classes or verdicts, key=lambda verdict: verdict.kept, default=None)
    real = [tensor for tensor in graph.outputs if tensor.size and is_real(tensor)]

    def pairs(name: str) -> list[tuple[Array, Array]]:
        return [(exact[name], rounded[name]) for exact, rounded in zip(reference, results, strict=True)]

    ratios = [Noise.of(pairs(judged_by(tensor).name)).db for tensor in real]
    errors = {
        name: max(float(np.abs(exact - rounded).max(initial=0.0)) for exact, rounded in pairs(name))
        for name in (tensor.name for tensor in real)
    }
    largest_in = max(errors, key=lambda name: errors[name], default="")
    return replace(
        row,
        db=sum(ratios) / len(ratios) if ratios else None,
        equal=worst.equal if worst else None,
        rows=worst.rows if worst else 0,
        largest=errors.get(largest_in),
        largest_in=largest_in,
        words=f"{worst.kind}: {worst}" if worst else "",
    )
