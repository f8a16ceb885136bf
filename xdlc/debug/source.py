"""Engine of a source model, with the names and axes of a DLC's graph."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Collection, Sequence
from typing import Any

from xdlc.compare.engines import Values
from xdlc.debug.frameworks import FRAMEWORKS
from xdlc.errors import BackendError, UsageError, nearest_names
from xdlc.ir import Graph, Model, Tensor
from xdlc.ir.data import Array
from xdlc.opdefs.traits import traits
from xdlc.worker import content
from xdlc.worker.process import ChildDiedError, Process, Served
from xdlc.worker.temporary import temporary_files

SECONDS = 600.0
"""Longest time of one request."""
MOST_AXES = 6
MEASURED = -1
"""Number of the sample whose shapes are measured."""
_TOGETHER = 64
"""Values that are measured at a time."""


class SourceEngine(Served):
    """A source model on its own framework, in a child process.

    Args:
        model: The DLC that was made of it.
        feeds: A sample, by which the shapes of the values are measured.
        weights: File with the weights, if the model's has none.

    Raises:
        UsageError: If the framework is not known or not installed, or no value is one of the DLC.
        BackendError: If the framework fails.
    """

    def __init__(self, name: str, path: str, model: Model, feeds: Values, weights: str = "") -> None:
        framework = FRAMEWORKS.find(name)
        if framework is None:
            frameworks = sorted(FRAMEWORKS.all())
            fix = nearest_names(name, frameworks) or f"use one of {', '.join(frameworks)}"
            raise UsageError(f"no framework {name!r}", fix=fix)
        if all(importlib.util.find_spec(package) is None for package in framework.packages):
            raise UsageError(f"{framework.title} is not installed", where=path, fix=f"`{framework.install}`")
        if not os.path.exists(path):
            raise UsageError("no such file", where=path, fix="check the path")
        self.title = f"{framework.title} ({os.path.basename(path.rstrip('/'))})"
        self._path, self._model = path, model
        self._process = Process("xdlc.debug.service")
        request = {"do": "open", "framework": name, "path": path, "weights": weights}
        opened = self._ask(request, [])
        self._inputs: list[str] = opened["inputs"]
        self._orders: dict[str, tuple[str, tuple[int, ...] | None]] = {}
        self._align(framework.channel_first, set(opened["names"]), feeds)
        if not self._orders:
            self.close()
            raise UsageError(
                "no value of the source model has the name of a DLC tensor",
                where=path,
                fix="use the model that the DLC was converted from",
            )
        self.names: Collection[str] = list(self._orders)

    def values(self, feeds: Values, names: Sequence[str], sample: int = 0) -> dict[str, Array]:
        """Return the values of tensors by name, in the layout of the graph."""
        import numpy as np

        if not names:
            return {}
        tensors = self._model.main.tensors
        results: dict[str, Array] = {}
        arrays = self._run(feeds, [self._orders[name][0] for name in names], sample)[1]
        for name, array in zip(names, arrays, strict=True):
            order = self._orders[name][1]
            turned = array if order is None else np.transpose(array, order)
            results[name] = np.ascontiguousarray(turned).reshape(tensors[name].shape)
        return results

    def _align(self, channel_first: bool, values: Collection[str], feeds: Values) -> None:
        """Find the value of each tensor and the order of its axes."""
        graph = self._model.main
        aliases = self._model.metadata.get("tensors", {}).get(graph.name, {})
        pairs: list[tuple[Tensor, str]] = []
        for tensor in (tensor for op in graph.ops for tensor in op.outputs):
            names = [tensor.name, *aliases.get(tensor.name, ())]
            pairs += [(tensor, name) for name in names if name in values][:1]
        turned: dict[Tensor, bool | None] = {tensor: False for tensor, _ in pairs}
        if channel_first:
            turned |= _turns(graph, aliases)
        pairs = [(tensor, name) for tensor, name in pairs if turned[tensor] is not None]
        for start in range(0, len(pairs), _TOGETHER):
            part = pairs[start : start + _TOGETHER]
            shapes = self._run(feeds, [source for _, source in part], MEASURED, measures=True)[0]
            for (tensor, source), shape in zip(part, shapes, strict=True):
                fits, order = order_of(shape, tensor.shape, bool(turned[tensor]))
                if fits:
                    self._orders[tensor.name] = (source, order)

    def _run(
        self, feeds: Values, names: Sequence[str], sample: int, *, measures: bool = False
    ) -> tuple[list[list[int]], list[Array]]:
        import numpy as np

        own = [tensor.name for tensor in self._model.main.inputs]
        arrays = []
        for place, name in enumerate(self._inputs):
            mine = name if name in feeds else own[place] if place < len(own) else None
            if mine is None or mine not in feeds:
                problem = f"the DLC has no input {name!r} of the source model"
                raise UsageError(
                    problem, where=self._path, fix="use the model that the DLC was converted from"
                )
            arrays.append(np.asarray(feeds[mine]))
        request = {"do": "values", "inputs": self._inputs, "names": list(names), "sample": sample}
        answer = self._ask({**request, "measures": measures, "path": self._path}, arrays)
        return answer["shapes"], answer["results"]

    def _ask(self, request: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        with content.shared_file() as file:
            with temporary_files():
                forms = content.write_arrays(file, arrays)
            try:
                answer = self._process.ask({**request, "arrays": forms}, [file], timeout=SECONDS)
            except ChildDiedError as error:
                raise BackendError(
                    f"the framework {error.how}{error.tail}",
                    where=self._path,
                    fix="run the model in the framework, without xdlc",
                ) from error
            return {**answer, "results": content.read_arrays(file, answer.get("arrays", []))}


def _turns(graph: Graph, renamed: Collection[str]) -> dict[Tensor, bool | None]:
    """Return whether channels, first in the source, are last in each tensor.

    None: its elements are in another order, as after a flattening that later weights make up for.

    Args:
        renamed: Names of tensors that hold several values of the source, as of a transposition.
    """
    turned: dict[Tensor, bool | None] = {}
    for op in graph.ops:
        sources = [source for source in op.inputs if source is not None and source in turned]
        facts = traits(op)
        for tensor in op.outputs:
            if facts.channel_axis or facts.pool or (op.is_inserted and op.type == "Transpose"):
                turned[tensor] = tensor.rank > 2
            elif facts.macs:
                turned[tensor] = False
            elif any(turned[source] is None for source in sources):
                turned[tensor] = None
            elif op.type == "Reshape":
                source = next(iter(sources), None)
                is_mixed = source is not None and turned[source] and source.name not in renamed
                turned[tensor] = None if is_mixed and _mixes(source.shape) else False  # type: ignore[union-attr]
            else:
                alike = (source for source in sources if source.rank == tensor.rank)
                turned[tensor] = op.type != "Transpose" and any(turned[source] for source in alike)
    return turned


def _mixes(shape: Sequence[int]) -> bool:
    """Return whether the elements of a shape have another order with channels first."""
    return shape[-1] > 1 and any(size > 1 for size in shape[1:-1])


def order_of(
    source: Sequence[int], target: Sequence[int], is_turned: bool
) -> tuple[bool, tuple[int, ...] | None]:
    """Return whether a shape can be another one, and in which order of axes.

    Args:
        is_turned: Whether channels, first in the source, are last in the target, where both fit.
    """
    rank = len(source)
    last = (0, *range(2, rank), 1)
    orders: list[tuple[int, ...] | None] = [None]
    if 2 < rank <= MOST_AXES:
        orders = [last, None] if is_turned else [None, last]
        orders += itertools.permutations(range(rank))
    for order in orders:
        if tuple(target) == (tuple(source) if order is None else tuple(source[axis] for axis in order)):
            return True, order
    plain = [size for size in source if size != 1]
    return plain == [size for size in target if size != 1], None
