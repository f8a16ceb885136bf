"""Division of a quantized model into sections for HTA and the HVX unit."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdlc.container.aip_record import (
    OWN_FLAVOUR,
    OWN_RECORD,
    AipBuffer,
    AipRecord,
    Dimension,
    Engine,
    Section,
    buffer_id,
    is_about_sections,
    is_aip,
    parse_aip,
    write_aip,
)
from xdlc.container.section_payload import write_subgraph
from xdlc.errors import ConstraintError, ContainerError, UsageError, XdlcError, each_problem
from xdlc.ir import Model, Op, Tensor, TensorData, raw_data
from xdlc.options import spell
from xdlc.prepare.hta import op_support
from xdlc.prepare.hta.op_support import RejectedOp
from xdlc.prepare.hta.partitioner import (
    Run,
    automatic,
    by_hand,
    fewest_changes,
    ops_in,
    parse_ranges,
)
from xdlc.runtime.htp_fusion import Bond, Partition, bonds, partitions_of
from xdlc.runtime.plan import came_quantized
from xdlc.runtime.section_record import conversions, layer_ids
from xdlc.targets import all_socs, find_soc
from xdlc.version import VERSION

RECORD_VERSION = "1.2.0.0"
BLOCK = 32  # channels
MOST_LAYERS = 1 << 16
MOST_TENSORS = 1 << 12


def section_of(
    engine: Engine,
    span: tuple[int, int],
    part: Partition,
    ids: Mapping[Op, int],
    fed: Collection[str],
    payload: bytes,
) -> Section:
    """Return the record's entry of a section.

    Args:
        span: Ids of its first and last layer.
        ids: Layer ids of all ops.
        fed: Names of the network inputs, also after conversions.
        payload: The sub-graph of a section on HTA; empty for HNN.

    Raises:
        ConstraintError: If a number does not fit the record.
    """
    buffers = [
        *(_buffer(engine, tensor, part, ids, fed, is_output=False) for tensor in part.graph.inputs),
        *(_buffer(engine, tensor, part, ids, fed, is_output=True) for tensor in part.graph.outputs),
    ]
    return Section(engine, *span, tuple(buffers), payload)


def record_of(sections: Sequence[Section]) -> AipRecord:
    """Return the record of sections that cover all layers."""
    return AipRecord(RECORD_VERSION, f"{VERSION}.0", OWN_FLAVOUR, tuple(sections))


def _buffer(
    engine: Engine,
    tensor: Tensor,
    part: Partition,
    ids: Mapping[Op, int],
    fed: Collection[str],
    *,
    is_output: bool,
) -> AipBuffer:
    op, index = _owner(tensor.name, part, is_output)
    layer = ids[op]
    for other in part.ops[: part.ops.index(op)]:  # ops of a layer of format 3 share its id
        if ids[other] == layer:
            index += len(other.outputs if is_output else other.inputs)
    if layer >= MOST_LAYERS or index >= MOST_TENSORS:
        raise ConstraintError(
            f"is tensor {index} of layer {layer}, but AIP records support at most {MOST_TENSORS} and "
            f"{MOST_LAYERS}",
            where=f"tensor {tensor.name!r}",
            fix="prepare a smaller model",
        )
    dimensions: tuple[Dimension, ...] = ()
    if engine is Engine.HTA:
        dimensions = _dimensions(tensor, blocked=is_output or tensor.name not in fed)
    return AipBuffer(tensor.name, is_output, layer, buffer_id(layer, index, is_output=is_output), dimensions)


def _owner(name: str, part: Partition, is_output: bool) -> tuple[Op, int]:
    """Return the op of a section that reads or writes a value, and the position.

    Values that only lent ops read belong to the first op.
    """
    for op in part.ops:
        for index, tensor in enumerate(op.outputs if is_output else op.inputs):
            if tensor is not None and tensor.name == name:
                return op, index
    lent = [tensor for op in (*part.lent, *part.readers) for tensor in op.inputs]
    return part.ops[0], len(part.ops[0].inputs) + [tensor and tensor.name for tensor in lent].index(name)


def _dimensions(tensor: Tensor, *, blocked: bool) -> tuple[Dimension, ...]:
    """Return a tensor's axes in HTA's memory; batches count as rows."""
    *outer, channels = tensor.shape or (1,)
    width = outer.pop() if outer else 1
    height = math.prod(outer)
    if not blocked:
        plain = (("height", height), ("width", width), ("channel", channels))
        return tuple([Dimension(axis, size, channels) for axis, size in plain])
    blocks = -(-channels // BLOCK)
    padded = blocks * BLOCK
    axes = (("channel", BLOCK), ("height", height), ("channel", blocks), ("width", width))
    return tuple([Dimension(axis, size, padded) for axis, size in axes])


MANY_CROSSINGS = 4


@dataclass(frozen=True, slots=True)
class Crossings:
    """Borders between sections, with the values that cross them in an inference.

    A value counts once for each section that reads it; a device requantizes fixed-point values.
    """

    count: int = 0
    values: int = 0
    nbytes: int = 0
    requantized: int = 0

    def __str__(self) -> str:
        return (
            f"{self.count} crossings between sections: each inference converts {self.values} values "
            f"({self.nbytes} bytes) and requantizes {self.requantized}"
        )


@dataclass(frozen=True, slots=True)
class PreparedHta:
    """Result of preparing a model for HTA.

    Attributes:
        model: A copy without old AIP records; with a new one if there are sections.
        sections: The sections, on HTA and HNN by turns, with the layer ids that ``model`` has; empty if
            nothing could be put on HTA.
        problems: Why there are no sections: requested layers that HTA does not support.
        rejected: Ops that HTA does not take, with the layer ids of the model given.
        crossings: What the borders between sections cost.
    """

    model: Model
    sections: tuple[Section, ...]
    problems: tuple[XdlcError, ...]
    rejected: tuple[RejectedOp, ...]
    crossings: Crossings = Crossings()


def prepare(
    model: Model,
    partitions: str | None = None,
    *,
    reorder: bool = False,
    soc: str | None = None,
    records: Mapping[str, TensorData] | None = None,
    notify: Callable[[str], None] | None = None,
    step: Callable[[str, int, int], None] | None = None,
) -> PreparedHta:
    """Return the model with sections for HTA.

    Args:
        model: A quantized model of QNN operations.
        partitions: Ranges of layer ids for HTA, like ``0-11,177-215``; default: chosen, see
            :mod:`xdlc.prepare.hta.partitioner`.
        reorder: Execute layers in another order if it has fewer sections, or more work on HTA; their ids
            follow the new order.
        soc: Name of the target SoC, checked for an HTA.
        records: Records of the container of format 3 that the model was translated from; default: the
            model's own.  Sections in them are listed as dropped.
        notify: Called with each note on what was done, a line of text; warnings begin with ``warning:``.
        step: Called with the title of what is done, the number of HTA sections made, and of all.

    Raises:
        UsageError: If ranges are malformed, reversed, out of range, not in order or overlap, or the SoC has
            no HTA; several problems make a ProblemList.
        ConstraintError: If the model is not quantized.
    """
    if soc is not None:
        check_soc(soc)
    ranges = None if partitions is None else parse_ranges(partitions)
    op_support.check_quantized(model.main)
    notes = [f"drops {held}" for held in sections_in(model.records if records is None else records)]
    clean = without_sections(model.clone() if reorder else model)
    job = _Sections(clean, step)
    runs, problems = (job.by_support(), []) if ranges is None else job.take(ops_in(ranges, job.given))
    if reorder and not problems:
        runs, reordered = job.reorder(runs, by_support=ranges is None)
        notes += reordered
    problems = problems or job.make(runs)
    if notify is not None:
        for note in (*notes, *(() if problems else job.notes)):
            notify(note)
    if problems:
        return PreparedHta(without_sections(model), (), tuple(problems), job.rejected)
    record = record_of(job.sections)
    clean.records[OWN_RECORD] = raw_data(write_aip(record))
    return PreparedHta(clean, record.sections, (), job.rejected, job.crossings)


def check_soc(name: str) -> None:
    """Check that a SoC has an HTA.

    Raises:
        UsageError: If it is not known, or has none.
    """
    soc = find_soc(name)
    if not soc.hta:
        names = ", ".join(one.name for one in all_socs() if one.hta)
        has = "its tensor unit is inside HTP" if soc.has_htp else "its DSP has no tensor unit"
        raise UsageError(
            f"{soc.name} (v{soc.arch}) has no HTA: {has}",
            where=spell("enable_hta"),
            fix=f"prepare for HTP, or for one of {names}" if soc.has_htp else f"prepare for one of {names}",
        )


def without_sections(model: Model) -> Model:
    """Return a copy of a model without AIP records."""
    records = {name: data for name, data in model.records.items() if not is_about_sections(name)}
    return Model(dict(model.graphs), copy.deepcopy(model.metadata), records)


def sections_in(records: Mapping[str, TensorData]) -> list[str]:
    """Return a line for each AIP record: its name, and its layers on HTA."""
    lines = []
    for name in filter(is_aip, records):
        try:
            sections = parse_aip(records[name].content(), where=name).sections
            layers = [f"{one.first}-{one.last}" for one in sections if one.engine is Engine.HTA]
            content = f" with the HTA sections of layers {', '.join(layers) or 'none'}"
        except ContainerError:
            content = ", which is damaged"
        lines.append(f"the AIP record {name!r}{content}")
    return lines


class _Sections:
    """The sections of one model in the making.

    Layers may be reordered.
    """

    def __init__(self, model: Model, step: Callable[[str, int, int], None] | None) -> None:
        self.model = model
        self.graph = model.main
        self.stated = came_quantized(model)
        self.given = layer_ids(model)
        self.ids = self.given
        entering = [*self.graph.inputs, *(tensor for op in conversions(model)[0] for tensor in op.outputs)]
        self.fed = {tensor.name for tensor in entering}
        self.reasons = op_support.reasons(self.given, entering)
        self.same_layer = [
            Bond(one, other, unrounded=True, shaping=False)
            for one, other in pairwise(self.given)
            if self.given[one] == self.given[other]
        ]
        unrounded = [bond for bond in bonds(self.graph, stated=self.stated) if bond.unrounded]
        self.tied = [*unrounded, *self.same_layer]
        self.sections: list[Section] = []
        self.notes: list[str] = []
        self.crossings = Crossings()
        self._step = step

    @property
    def rejected(self) -> tuple[RejectedOp, ...]:
        """Ops that HTA does not support."""
        return tuple([RejectedOp(self.given[op], op.name, op.type, why) for op, why in self.reasons.items()])

    def by_support(self, order: Sequence[Op] = ()) -> list[Run]:
        """Return the division with the most layers on HTA, in their order or another."""
        return automatic(order or list(self.given), self.given.keys() - self.reasons, self.tied)

    def take(self, ranges: Sequence[Sequence[Op]]) -> tuple[list[Run], list[XdlcError]]:
        """Return the division with ranges of ops on HTA, and problems with them."""
        ops_on_hta = {op for ops in ranges for op in ops}
        problems: list[XdlcError] = [
            ConstraintError(
                f"HTA does not support layer {self.given[op]} {op.name!r}: {'; '.join(why)}",
                where=spell("partitions"),
                fix="remove the layer from the ranges",
                node=op.name,
                op=op.type,
            )
            for op, why in self.reasons.items()
            if op in ops_on_hta
        ]
        return by_hand(list(self.given), ranges), problems

    def reorder(self, runs: list[Run], *, by_support: bool) -> tuple[list[Run], list[str]]:
        """Reorder the graph if that is better; return the division and a note."""
        wanted = {op for run in runs if run.engine is Engine.HTA for op in run.ops}
        on_hta = self.given.keys() - self.reasons if by_support else wanted
        tied = self.tied if by_support else self.same_layer
        order = fewest_changes(self.graph, list(self.given), on_hta, tied)
        division = self.by_support(order) if by_support else by_hand(order, [list(wanted)])
        if _merit(division) <= _merit(runs):
            return runs, [f"no order of the layers has fewer sections than {len(runs)}"]
        before, after = conversions(self.model)
        for op in (*before, *order, *after):
            self.graph.unlink(op)
            self.graph.append(op)
        self.model.metadata.pop("layers", None)  # ids of a file of format 3 would not rise
        self.ids = layer_ids(self.model)
        moved = sum(self.given[op] != id for op, id in self.ids.items())
        return division, [
            f"xdlc reordered layers: {len(division)} sections instead of {len(runs)}; {moved} layers have "
            "new ids; `xdlc info --ops` shows the ids"
        ]

    def make(self, runs: Sequence[Run]) -> list[XdlcError]:
        """Make a section of each run; return the problems that prevent it."""
        on_hta = {op for run in runs if run.engine is Engine.HTA for op in run.ops}
        if not on_hta:
            taken = len(self.given) - len(self.reasons)
            return [
                ConstraintError(
                    f"no layer can run on HTA; HTA supports {taken} of {len(self.given)} layers",
                    where=f"graph {self.graph.name!r}",
                    fix="read the reasons of the layers that HTA does not support, and change these layers",
                )
            ]
        problems: list[XdlcError] = []
        before, after = conversions(self.model)
        groups = [before, *(run.ops for run in runs), after]
        parts = partitions_of(self.graph, groups, stated=self.stated)[1:-1]
        total = sum(run.engine is Engine.HTA for run in runs)
        done = 0
        for run, span, part in zip(runs, self._spans(runs), parts, strict=True):
            blocked = self._blocked(part) if run.engine is Engine.HTA else []
            problems += blocked
            if blocked:
                continue
            try:
                payload = write_subgraph(part.graph) if run.engine is Engine.HTA else b""
                self.sections.append(section_of(run.engine, span, part, self.ids, self.fed, payload))
            except XdlcError as error:
                problems += each_problem(error)
            self.notes += self._lent(run, part)
            if self._step is not None and run.engine is Engine.HTA:
                done += 1
                self._step("compiling HTA sections", done, total)
        self._measure(parts)
        return problems

    def _spans(self, runs: Sequence[Run]) -> Iterator[tuple[int, int]]:
        """Yield the first and last id of each run; gaps belong to the adjacent HNN run."""
        first = 0
        for run, following in zip(runs, [*runs[1:], None], strict=True):
            last = self.ids[run.ops[-1]]
            if run.engine is Engine.HNN and following is not None:
                last = self.ids[following.ops[0]] - 1
            yield first, last
            first = last + 1

    def _measure(self, parts: Sequence[Partition]) -> None:
        """Set the figures of the crossings, and warn of many."""
        entering = [tensor for part in parts for tensor in part.graph.inputs if tensor.name not in self.fed]
        count, nbytes = len(parts) - 1, sum(tensor.nbytes for tensor in entering)
        requantized = sum(tensor.dtype.is_fixed for tensor in entering)
        self.crossings = Crossings(count, len(entering), nbytes, requantized)
        if count >= MANY_CROSSINGS:
            self.notes.append(
                f"warning: many HTA sections cost time and accuracy: {self.crossings}; "
                f"use fewer, longer ranges, or {spell('reorder', True)}"
            )

    def _blocked(self, part: Partition) -> list[XdlcError]:
        """Return errors for borders of a section that divide ops computed together."""
        first, last = (self.given[part.ops[index]] for index in (0, -1))
        return [
            ConstraintError(
                f"a border of layers {first}-{last} separates the layer from a layer that HTA computes "
                f"together with it; HTA does not support the layer alone: {'; '.join(self.reasons[op])}",
                where=f"layer {self.given[op]} {op.name!r} ({op.type})",
                fix="move the border, so that both layers are in one section",
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
        return [f"the section of layers {layers} also computes layers {others}"]


def _merit(runs: Sequence[Run]) -> tuple[int, int]:
    """Return the rank of a division: the layers on HTA, then the fewest sections."""
    return sum(len(run.ops) for run in runs if run.engine is Engine.HTA), -len(runs)
