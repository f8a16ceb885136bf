"""Divides a quantized model into sections for HTA and the HVX unit, and compiles those for HTA."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdlc.container.aip_record import OWN_FACTS, OWN_RECORD, Engine, Section, is_about_sections, write_aip
from xdlc.errors import ConstraintError, UsageError, XdlcError, each_problem, raise_all
from xdlc.ir import Model, Op, raw_data
from xdlc.prepare.hta import op_support
from xdlc.prepare.hta.aip_sections import facts_of, record_of, section_of
from xdlc.prepare.hta.compile import compile_section
from xdlc.prepare.hta.layer_ranges import ops_in, parse_ranges
from xdlc.prepare.hta.op_support import Rejected
from xdlc.prepare.hta.partitioner import Run, automatic, by_hand
from xdlc.runtime.fusion_groups import Part, bonds, parts_of
from xdlc.runtime.hta.form import encode
from xdlc.runtime.htp_fusion import came_quantized
from xdlc.runtime.layers import layer_ids
from xdlc.targets import all_socs, find_soc


@dataclass(frozen=True, slots=True)
class PreparedHta:
    """What became of a model.

    Attributes:
        model: A copy without old AIP records; with a new one if there are sections.
        sections: The sections, on HTA and HNN by turns, with the layer ids that ``model`` has; empty if
            nothing could be put on HTA.
        problems: Why there are no sections: what the user has asked for and HTA does not take.
        rejected: Ops that HTA does not take, with the layer ids of the model given.
    """

    model: Model
    sections: tuple[Section, ...]
    problems: tuple[XdlcError, ...]
    rejected: tuple[Rejected, ...]


def prepare(
    model: Model,
    partitions: str | None = None,
    *,
    soc: str | None = None,
    notify: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PreparedHta:
    """Return the model with sections for HTA; preparing again needs no other quantization.

    Sections are numbered by ops: ids of the layers that the ops were translated from are forgotten.

    Args:
        model: A quantized model of QNN operations.
        partitions: Ranges of layer ids for HTA, like ``0-11,177-215``; default: chosen, see
            :mod:`xdlc.prepare.hta.partitioner`.
        soc: Name of the SoC that it is for, to be told if that has no HTA.
        notify: Called with each note on what was done: a line of text.
        progress: Called with the number of HTA sections compiled, and of all.

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
    job = _Job(model, progress)
    problems = job.choose() if ranges is None else job.take(ops_in(ranges, job.given))
    if notify is not None and not problems:
        for note in (*job.renumbered(), *job.notes):
            notify(note)
    clean = without_sections(model)
    if problems:
        return PreparedHta(clean, (), tuple(problems), job.rejected)
    record = record_of(job.sections)
    clean.records[OWN_RECORD] = raw_data(write_aip(record))
    clean.records[OWN_FACTS] = raw_data(facts_of(job.compiled, stated=job.stated))
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
    """Return a copy of a model without AIP records, and without the ids of layers that these count in."""
    metadata = copy.deepcopy({key: value for key, value in model.metadata.items() if key != "layers"})
    records = {name: data for name, data in model.records.items() if not is_about_sections(name)}
    return Model(dict(model.graphs), metadata, records)


class _Job:
    """The work on one model."""

    def __init__(self, model: Model, progress: Callable[[int, int], None] | None) -> None:
        self.graph = model.main
        self.stated = came_quantized(model)
        self.given = layer_ids(model)
        self.ids = {op: position for position, op in enumerate(self.graph.ops)}
        self.refused: dict[Op, tuple[str, ...]] = {}
        self.sections: list[Section] = []
        self.compiled: dict[int, Part] = {}
        self.notes: list[str] = []
        self._progress = progress
        self._judge()

    def _judge(self) -> None:
        self.reasons = op_support.reasons(self.graph, self.refused)

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        """The ops that HTA does not take."""
        return tuple([Rejected(self.given[op], op.name, op.type, why) for op, why in self.reasons.items()])

    def choose(self) -> list[XdlcError]:
        """Divide the graph by worth; what the compiler refuses goes to HNN."""
        tied = [bond for bond in bonds(self.graph, stated=self.stated) if bond.unrounded]
        while True:
            accepted = {op for op in self.graph.ops if op not in self.reasons}
            runs = automatic(self.graph, accepted, tied)
            if all(run.engine is Engine.HNN for run in runs):
                return [
                    ConstraintError(
                        f"no layer is worth running on HTA, which takes {len(accepted)} of {len(self.graph)}",
                        where=f"graph {self.graph.name!r}",
                        fix="see the layers that HTA does not take, and why",
                    )
                ]
            problems = self._batch_problems(runs) or self._compile(runs)
            refused = self._refused(problems)
            if not refused:
                return problems
            self.refused.update(refused)
            self._judge()

    def take(self, ranges: Sequence[Sequence[Op]]) -> list[XdlcError]:
        """Put ranges of ops on HTA; return what it does not take of them."""
        wanted = {op for ops in ranges for op in ops}
        problems: list[XdlcError] = [
            ConstraintError(
                f"HTA does not take layer {self.given[op]} {op.name!r}: {'; '.join(why)}",
                where="--hta_partitions",
                fix="leave the layer out of the ranges",
                node=op.name,
                op=op.type,
            )
            for op, why in self.reasons.items()
            if op in wanted
        ]
        runs = by_hand(self.graph, ranges)
        problems += self._batch_problems(runs)
        return problems or self._compile(runs)

    def renumbered(self) -> list[str]:
        """Return a note if the sections count otherwise than the ids that ranges and refusals go by."""
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

    def _batch_problems(self, runs: Sequence[Run]) -> list[XdlcError]:
        on_hta = {op for run in runs if run.engine is Engine.HTA for op in run.ops}
        return op_support.check_batch(self.graph, on_hta)

    def _refused(self, problems: Sequence[XdlcError]) -> dict[Op, tuple[str, ...]]:
        ops = {op.name: op for op in self.graph.ops}
        found: dict[Op, tuple[str, ...]] = {}
        for problem in problems:
            op = ops.get(problem.node or "")
            if op is not None and op not in self.reasons:
                found[op] = (*found.get(op, ()), f"HTA: {problem.problem}")
        return found

    def _compile(self, runs: Sequence[Run]) -> list[XdlcError]:
        parts = parts_of(self.graph, [run.ops for run in runs], stated=self.stated)
        pairs = list(zip(runs, parts, strict=True))
        fed = {tensor.name for tensor in self.graph.inputs}
        total = sum(run.engine is Engine.HTA for run in runs)
        problems: list[XdlcError] = []
        self.sections, self.compiled, self.notes = [], {}, []
        for run, part in pairs:
            binary = b""
            try:
                if run.engine is Engine.HTA:
                    raise_all(self._blocked(part))
                    binary = encode(compile_section(part.graph, stated=self.stated))
                    self.compiled[self.ids[part.ops[0]]] = part
                self.sections.append(section_of(run.engine, part, self.ids, fed, binary))
            except XdlcError as error:
                problems += each_problem(error)
            self.notes += self._lent(run, part)
            if self._progress is not None and run.engine is Engine.HTA:
                self._progress(len(self.compiled), total)
        return problems

    def _blocked(self, part: Part) -> list[XdlcError]:
        """Return why a section cannot be compiled whose border parts ops that are computed as one."""
        first, last = (self.given[part.ops[index]] for index in (0, -1))
        return [
            ConstraintError(
                f"a border of layers {first}-{last} parts it from a layer that it is computed as one with, "
                f"and HTA does not take it: {'; '.join(self.reasons[op])}",
                where=f"layer {self.given[op]} {op.name!r} ({op.type})",
                fix="move the border, so that both layers are on one side",
                node=op.name,
                op=op.type,
            )
            for op in part.lent
            if op in self.reasons
        ]

    def _lent(self, run: Run, part: Part) -> list[str]:
        if not part.lent:
            return []
        layers = f"{self.given[run.ops[0]]}-{self.given[run.ops[-1]]}"
        others = ", ".join(str(self.given[op]) for op in part.lent)
        return [f"the section of layers {layers} computes layers {others} too: all are computed as one"]
