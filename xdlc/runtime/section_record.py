"""AIP record of a model: its sections, the ops of each, and their sub-graphs.

Records are untrusted: one that does not cover the model, or holds other sub-graphs than the model's, is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from xdlc.container.aip_record import (
    OWN_FLAVOUR,
    OWN_RECORD,
    VENDOR_RECORDS,
    AipRecord,
    Engine,
    Section,
    parse_aip,
)
from xdlc.container.read3 import PACKAGE
from xdlc.container.section_payload import AGAIN, is_subgraph, read_subgraph, write_subgraph
from xdlc.errors import ContainerError
from xdlc.ir import NATIVE_PACKAGE, Graph, Model, Op, Tensor, TensorData
from xdlc.ir.fingerprint import fingerprint
from xdlc.opdefs.traits import traits
from xdlc.records import record


def conversions(model: Model) -> tuple[list[Op], list[Op]]:
    """Return the ops that convert inputs for callers, and those that convert outputs.

    They are no layers and in no section: a runtime converts data of callers outside of the network.
    """
    graph, numbered = model.main, _stated_ids(model)
    candidates = [
        op
        for op in graph.ops
        if (_changes_type(op) or _is_native(op, "Transpose")) and op.inputs and op.name not in numbered
    ]
    passed: set[Tensor | None] = set(graph.inputs)
    before: dict[Op, None] = {}
    after: set[Op] = set()
    for op in candidates:
        if op.inputs[0] in passed:
            before[op] = None
            passed.update(op.outputs)
    for op in reversed(candidates):
        if op not in before and all(
            reader in after for tensor in op.outputs for reader in graph.consumers(tensor)
        ):
            after.add(op)
    return list(before), [op for op in candidates if op in after]


def layer_ids(model: Model) -> dict[Op, int]:
    """Return the layer id of each op of the main graph, in order; ids never decrease.

    It is the op's position among the layers, counted from 0.  ``conversions`` of callers' data are none, and
    a conversion that the quantizer inserted belongs to the layer before it, so that quantizing changes no id.
    Ops of a container of format 3, or translated from one, have the id that the file states for their
    layer; several may share one, and layers without ops have none.
    """
    stated = _stated_ids(model)
    skipped = {op for side in conversions(model) for op in side}
    ids: dict[Op, int] = {}
    last = 0 if stated else -1
    for op in model.main.ops:
        if op in skipped:
            continue
        belongs = op.is_inserted and _changes_type(op)
        last = max(last, stated.get(op.name, last)) if stated else max(0, last + (not belongs))
        ids[op] = last
    return ids


def _changes_type(op: Op) -> bool:
    """Return whether an op stores its input in another type or encoding."""
    return traits(op).recodes or _is_native(op, "Cast")


def _is_native(op: Op, type: str) -> bool:
    return op.package == NATIVE_PACKAGE and op.type == type


def _stated_ids(model: Model) -> Mapping[str, int]:
    """Return the layer ids by op name in a file of format 3, else none."""
    ops = model.main.ops
    return model.metadata.get("layers") or {
        op.name: op.param("layer_id", 0) for op in ops if op.package == PACKAGE
    }


@record(frozen=True)
class PlacedSection:
    """A section and its ops.

    Attributes:
        ops: Ops of the main graph, in order; none for layers without operations.
    """

    section: Section
    ops: tuple[Op, ...]
    where: str

    @property
    def has_subgraph(self) -> bool:
        """Whether the section contains a sub-graph of xdlc, which runs on the host."""
        return self.section.engine is Engine.HTA and is_subgraph(self.section.binary)

    def subgraph(self, partition: Graph) -> Graph:
        """Return the section's sub-graph under the model's names of graph and ops.

        Args:
            partition: The sub-graph that the model has there now.

        Raises:
            ContainerError: If it is damaged, or has other operations, weights or encodings.
        """
        held = read_subgraph(self.section.binary, where=self.where)
        # A container normalizes operations, so both sub-graphs have to be read from one.
        expected = read_subgraph(write_subgraph(partition), where=self.where)
        if fingerprint(held) != fingerprint(expected):
            refuse("the section has other operations, weights or encodings than the model", self.where)
        return expected


def find_record(records: Mapping[str, TensorData]) -> tuple[str, AipRecord]:
    """Return name and content of the AIP record to run, xdlc's own first.

    Raises:
        ContainerError: If there is no record, or it is damaged.
    """
    listed = [
        (name, parse_aip(records[name].content(), where=f"record {name!r}"))
        for name in (OWN_RECORD, *VENDOR_RECORDS)
        if name in records
    ]
    if not listed:
        raise ContainerError(
            "has no AIP record, which lists the sections for HTA",
            fix="prepare the model for HTA: `xdlc quantize net.dlc -l samples.txt --enable-hta`",
        )
    return next((one for one in listed if one[1].flavour == OWN_FLAVOUR), listed[0])


def placed(model: Model, name: str, record: AipRecord) -> list[PlacedSection]:
    """Return the sections of a record with their ops.

    Raises:
        ContainerError: If sections do not follow each other, or do not cover the model's layers.
    """
    ids = layer_ids(model)
    where = f"record {name!r}"
    _check_cover(record.sections, ids, where, exactly=not _stated_ids(model))
    members: list[list[Op]] = [[] for _ in record.sections]
    index = 0
    for op, id in ids.items():
        while id > record.sections[index].last:
            index += 1
        members[index].append(op)
    sections = []
    for number, (section, ops) in enumerate(zip(record.sections, members, strict=True)):
        place = f"{where}: section {number} (layers {section.first}-{section.last})"
        placed_section = PlacedSection(section, tuple(ops), place)
        if placed_section.has_subgraph and not ops:
            refuse("the section is for HTA, but has no operations", place)
        sections.append(placed_section)
    return sections


def _check_cover(sections: Sequence[Section], ids: Mapping[Op, int], where: str, *, exactly: bool) -> None:
    if not ids or not sections:
        refuse(f"has {len(sections)} sections, but {len(ids)} layers", where)
    begin, end = min(ids.values()), max(ids.values())
    if sections[0].first > begin:
        refuse(
            f"the first section begins at layer {sections[0].first}, but the model begins at layer {begin}",
            where,
        )
    following = sections[0].first
    for section in sections:
        if section.first != following or section.last < section.first:
            refuse(
                f"a section has layers {section.first}-{section.last}, but must begin at layer {following}",
                where,
            )
        following = section.last + 1
    if following <= end or (exactly and following != end + 1):
        refuse(f"the sections end at layer {following - 1}, but the model has layers up to {end}", where)


def refuse(problem: str, where: str) -> NoReturn:
    """Raise the error for a record that does not fit the model.

    Raises:
        ContainerError: Always.
    """
    raise ContainerError(problem, where=where, fix=AGAIN)
