"""Execution by sections, into which the AIP record divides a model.

Every section runs on the CPU: one on HTA as the sub-graph that its payload holds, any other as the model's
own ops, and so are conversions of what callers pass and receive.  Values pass between sections in the form in
which graphs output them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdlc.container.aip_record import Engine
from xdlc.errors import UsageError, raise_all
from xdlc.ir import Graph, Model, Tensor, TensorData
from xdlc.options import spell
from xdlc.runtime.cpu import CpuSession, feeds_of, result
from xdlc.runtime.htp_fusion import Partition, partitions_of
from xdlc.runtime.lower import check_outputs
from xdlc.runtime.plan import came_quantized, constant
from xdlc.runtime.section_record import PlacedSection, conversions, find_record, placed
from xdlc.runtime.states import with_first_values

if TYPE_CHECKING:
    from xdlc.runtime.udo.kernels import Kernels

Array = Any  # numpy.ndarray


class SectionSession:
    """A model with an AIP record, ready to run.

    Attributes:
        notices: Notes for the caller: lines of text.

    Args:
        records: Records of the container of format 3 that the model was translated from; default: the
            model's own.
        outputs: Names of further tensors to return; only values that pass between sections are available.
        threads: Threads of one op; default: one per core.
        loop_timeout: Seconds that each loop may take.
        kernels: Kernels of UDOs; the caller closes them, unless the session owns them.

    Raises:
        ContainerError: If there is no AIP record, or it is damaged, or does not fit the model.
        UsageError: If an extra output is not a tensor of the graph, or inside a section.
        XdlcError: What :class:`xdlc.runtime.cpu.CpuSession` raises.
    """

    def __init__(
        self,
        model: Model,
        *,
        records: Mapping[str, TensorData] | None = None,
        outputs: Iterable[str] = (),
        threads: int | None = None,
        loop_timeout: float | None = None,
        kernels: Kernels | None = None,
    ) -> None:
        self.graph = model.main
        self._states = model.metadata.get("states", {})
        self._sections = placed(model, *find_record(model.records if records is None else records))
        before, after = conversions(model)
        runs = [before, *(section.ops for section in self._sections), after]
        parts = partitions_of(self.graph, runs, stated=came_quantized(model))
        self.notices = _notices(self._sections)
        self._outputs = [*self.graph.outputs, *_extra(self.graph, parts, outputs)]
        others = {name: graph for name, graph in model.graphs.items() if graph is not model.main}
        self._sessions: list[CpuSession] = []
        for section, part in zip([None, *self._sections, None], parts, strict=True):
            graph = (
                section.subgraph(part.graph) if section is not None and section.has_subgraph else part.graph
            )
            if graph.outputs:
                own = Model({graph.name: graph, **others}, model.metadata, model.records)
                self._sessions.append(
                    CpuSession(own, threads=threads, loop_timeout=loop_timeout, kernels=kernels)
                )
        self._static = {tensor.name: constant(tensor) for tensor in self.graph.outputs if tensor.is_static}

    def run(self, feeds: Mapping[str, Array], *, native: bool = False) -> dict[str, Array]:
        """Return the outputs by tensor name.

        Args:
            feeds: One array per input, as :meth:`xdlc.runtime.cpu.CpuSession.run` takes them.
            native: Return fixed-point outputs as quantized values instead of float32.

        Raises:
            UsageError: If an input is missing, unknown, or has another shape or type.
            BackendError: If onnxruntime fails, or a loop takes longer than its time-out.
        """
        values = {**self._static, **feeds_of(self.graph, with_first_values(self.graph, self._states, feeds))}
        for session in self._sessions:
            values.update(session.run({tensor.name: values[tensor.name] for tensor in session.graph.inputs}))
        return {tensor.name: result(tensor, values[tensor.name], native=native) for tensor in self._outputs}

    def __str__(self) -> str:
        own = [one for one in self._sections if one.has_subgraph]
        layers = ", ".join(f"{one.section.first}-{one.section.last}" for one in own)
        count = len(self._sections)
        return f"{count} section{'s' * (count != 1)}, " + (
            f"layers {layers} on HTA" if layers else "no layers on HTA"
        )


def _extra(graph: Graph, parts: Sequence[Partition], outputs: Iterable[str]) -> list[Tensor]:
    names = check_outputs(graph, outputs)
    had = {tensor.name for part in parts for tensor in part.graph.outputs}
    problems = [
        UsageError(
            f"tensor {name!r} is inside a section, and sections do not return inner tensors",
            where=f"graph {graph.name!r}",
            fix=f"run the model without {spell('use_aip', True)}",
        )
        for name in names
        if name not in had
    ]
    raise_all(problems)
    own = {tensor.name for tensor in graph.outputs}
    return [graph.tensors[name] for name in names if name not in own]


def _notices(sections: Sequence[PlacedSection]) -> tuple[str, ...]:
    foreign = [
        f"{one.section.first}-{one.section.last}"
        for one in sections
        if one.section.engine is Engine.HTA and not one.has_subgraph
    ]
    if not foreign:
        return ()
    return (
        f"layers {', '.join(foreign)} have the vendor's HTA code, which runs only on a device; xdlc runs "
        "these layers on this CPU",
    )
