"""Division of a quantized model into sections for HTA and the HVX unit, with a sub-graph for each on HTA."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdlc.container.aip_record import OWN_RECORD, Engine, Section, is_about_sections, write_aip
from xdlc.container.section_payload import write_subgraph
from xdlc.errors import ConstraintError, UsageError, XdlcError, each_problem
from xdlc.ir import Model, Op, raw_data
from xdlc.prepare.hta import op_support
from xdlc.prepare.hta.aip_sections import record_of, section_of
from xdlc.prepare.hta.layer_ranges import ops_in, parse_ranges
from xdlc.prepare.hta.op_support import RejectedOp
from xdlc.prepare.hta.partitioner import Run, automatic, by_hand
from xdlc.runtime.fusion_groups import Partition, bonds, partitions_of
from xdlc.runtime.htp_fusion import came_quantized
from xdlc.runtime.section_record import layer_ids
from xdlc.targets import all_socs, find_soc


@dataclass(frozen=True, slots=True)
class PreparedHta:
    """Result of preparing a model for HTA.

    Attributes:
        model: A copy without old AIP records; with a new one if there are sections.
        sections: The sections, on HTA and HNN by turns, with the layer ids that ``model`` has; empty if
            nothing could be put on HTA.
        problems: Why there are no sections: requested layers that HTA does not take.
        rejected: Ops that HTA does not take, with the layer ids of the model given.
    """

    model: Model
    sections: tuple[Section, ...]
    problems: tuple[XdlcError, ...]
    rejected: tuple[RejectedOp, ...]


def prepare(
    model: Model,
    partitions: str | None = None,
    *,
    soc: str | None = None,
    notify: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PreparedHta:
    """Return the model with sections for HTA; preparing again needs no other quantization.

    Sections are numbered by ops: ids of the layers that the ops were translated from are dropped.

    Args:
        model: A quantized model of QNN operations.
        partitions: Ranges of layer ids for HTA, like ``0-11,177-215``; default: chosen, see
            :mod:`xdlc.prepare.hta.partitioner`.
        soc: Name of the target SoC, checked for an HTA.
        notify: Called with each note on what was done: a line of text.
        progress: Called with the number of HTA sections made, and of all.

    Raises:
        UsageError: If ranges are malformed, reversed, out of range, not in order or overlap, or the SoC has
            no HTA; several problems make a ProblemList.
        ConstraintError: If the model is not quantized.
    """
    if soc is not None:
        check_soc(soc)
    ranges = None if partitions is None else parse_ranges(partitions)
    graph = model.main
    op_support.check_quantized(graph)
    job = _Sections(model, progress)
    problems = job.choose() if ranges is None else job.take(ops_in(ranges, job.given))
    if notify is not None and not problems:
        for note in (*job.renumbered(), *job.notes):
            notify(note)
    clean = without_sections(model)
    if problems:
        return PreparedHta(clean, (), tuple(problems), job.rejected)
    record = record_of(job.sections)
    clean.records[OWN_RECORD] = raw_data(write_aip(record))
    return PreparedHta(clean, record.sections, (), job.rejected)


def check_soc(name: str) -> None:
    """Check that a SoC has an HTA.

    Raises:
        UsageError: If it is not known, or has none.
    """
    soc = find_soc(name)
    if not soc.hta:
        known = ", ".join(one.name for one in all_socs() if one.hta)
        has = "its tensor unit is inside HTP" if soc.has_htp else "its DSP has no tensor unit"
        raise UsageError(
            f"{soc.name} (v{soc.arch}) has no HTA: {has}",
            where="--enable_hta",
            fix=f"prepare for HTP with --enable_htp, or for one of {known}"
            if soc.has_htp
            else f"prepare for one of {known}",
        )


def without_sections(model: Model) -> Model:
    """Return a copy of a model without AIP records, and without the layer ids that they count in."""
    metadata = copy.deepcopy({key: value for key, value in model.metadata.items() if key != "layers"})
    records = {name: data for name, data in model.records.items() if not is_about_sections(name)}
    return Model(dict(model.graphs), metadata, records)


class _Sections:
    """The sections of one model in the making."""

    def __init__(self, model: Model, progress: Callable[[int, int], None] | None) -> None:
        self.graph = model.main
        self.stated = came_quantized(model)
        self.given = layer_ids(model)
        self.ids = {op: position for position, op in enumerate(self.graph.ops)}
        self.reasons = op_support.reasons(self.graph)
        self.sections: list[Section] = []
        self.notes: list[str] = []
        self._progress = progress

    @property
    def rejected(self) -> tuple[RejectedOp, ...]:
        """The ops that HTA does not take."""
        return tuple([RejectedOp(self.given[op], op.name, op.type, why) for op, why in self.reasons.items()])

    def choose(self) -> list[XdlcError]:
        """Divide the graph by cost."""
        tied = [bond for bond in bonds(self.graph, stated=self.stated) if bond.unrounded]
        accepted = {op for op in self.graph.ops if op not in self.reasons}
        runs = automatic(self.graph, accepted, tied)
        if all(run.engine is Engine.HNN for run in runs):
            return [
                ConstraintError(
                    f"no layer pays off on HTA, which takes {len(accepted)} of {len(self.graph)}",
                    where=f"graph {self.graph.name!r}",
                    fix="check the reasons of the layers that HTA does not take",
                )
            ]
        return self._make(runs)

    def take(self, ranges: Sequence[Sequence[Op]]) -> list[XdlcError]:
        """Put ranges of ops on HTA; return why it does not take some of them."""
        wanted = {op for ops in ranges for op in ops}
        problems: list[XdlcError] = [
            ConstraintError(
                f"HTA does not take layer {self.given[op]} {op.name!r}: {'; '.join(why)}",
                where="--hta_partitions",
                fix="remove the layer from the ranges",
                node=op.name,
                op=op.type,
            )
            for op, why in self.reasons.items()
            if op in wanted
        ]
        return self._make(by_hand(self.graph, ranges), problems)

    def renumbered(self) -> list[str]:
        """Return a note if sections count in other ids than ranges and refusals."""
        if all(self.given[op] == id for op, id in self.ids.items()):
            return []
        ops = {id: op for op, id in self.ids.items()}
        pairs = ", ".join(
            f"{self.given[ops[one.first]]}-{self.given[ops[one.last]]} are {one.first}-{one.last}"
            for one in self.sections
            if one.engine is Engine.HTA
        )
        return [
            "ranges and refusals go by the layer ids of the DLC given; sections count the operations "
            f"from 0: layers {pairs}"
        ]

    def _make(self, runs: Sequence[Run], refused: Sequence[XdlcError] = ()) -> list[XdlcError]:
        """Make a section of each run; return the problems that prevent it."""
        on_hta = {op for run in runs if run.engine is Engine.HTA for op in run.ops}
        problems = [*refused, *op_support.check_batch(self.graph, on_hta)]
        if problems:
            return problems
        parts = partitions_of(self.graph, [run.ops for run in runs], stated=self.stated)
        network_inputs = {tensor.name for tensor in self.graph.inputs}
        total = sum(run.engine is Engine.HTA for run in runs)
        done = 0
        for run, part in zip(runs, parts, strict=True):
            blocked = self._blocked(part) if run.engine is Engine.HTA else []
            problems += blocked
            if blocked:
                continue
            try:
                payload = write_subgraph(part.graph) if run.engine is Engine.HTA else b""
                self.sections.append(section_of(run.engine, part, self.ids, network_inputs, payload))
            except XdlcError as error:
                problems += each_problem(error)
            self.notes += self._lent(run, part)
            if self._progress is not None and run.engine is Engine.HTA:
                done += 1
                self._progress(done, total)
        return problems

    def _blocked(self, part: Partition) -> list[XdlcError]:
        """Return why the border of a section may not divide ops that are computed as one."""
        first, last = (self.given[part.ops[index]] for index in (0, -1))
        return [
            ConstraintError(
                f"a border of layers {first}-{last} divides it from a layer that it is computed as one with, "
                f"and HTA does not take it: {'; '.join(self.reasons[op])}",
                where=f"layer {self.given[op]} {op.name!r} ({op.type})",
                fix="move the border, so that both layers are on one side",
                node=op.name,
                op=op.type,
            )
            for op in part.lent
            if op in self.reasons
        ]

    def _lent(self, run: Run, part: Partition) -> list[str]:
        if not part.lent:
            return []
        layers = f"{self.given[run.ops[0]]}-{self.given[run.ops[-1]]}"
        others = ", ".join(str(self.given[op]) for op in part.lent)
        return [f"the section of layers {layers} computes layers {others} too: all are computed as one"]
