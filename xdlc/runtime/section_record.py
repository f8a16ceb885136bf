"""Reads the AIP record of a model and finds the ops of each of its sections.

Records come from files: one that does not cover the model, or was made for another state of it, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from xdlc.container.aip_record import (
    OWN_FACTS,
    OWN_FLAVOUR,
    OWN_RECORD,
    VENDOR_RECORDS,
    AipRecord,
    Engine,
    Section,
    parse_aip,
)
from xdlc.errors import ContainerError
from xdlc.ir import Model, Op, TensorData
from xdlc.ir.fingerprint import fingerprint
from xdlc.runtime.fusion_groups import Part
from xdlc.runtime.hta.form import is_plan
from xdlc.runtime.layers import layer_ids

AGAIN = "prepare the sections again with --enable_hta"
FACTS_VERSION = 1


@dataclass(frozen=True, slots=True)
class Placed:
    """A section and its ops.

    Attributes:
        section: The section.
        ops: Ops of the main graph, in order; none for layers that stand for nothing.
        where: Its place, for errors.
    """

    section: Section
    ops: tuple[Op, ...]
    where: str

    @property
    def is_compiled(self) -> bool:
        """Whether it holds a plan of xdlc."""
        return self.section.engine is Engine.HTA and is_plan(self.section.binary)


def find_record(records: Mapping[str, TensorData]) -> tuple[str, AipRecord]:
    """Return the name and the content of the AIP record to go by: xdlc's own where there is one.

    Raises:
        ContainerError: If there is none, or it is damaged.
    """
    found = [
        (name, parse_aip(content_of(records[name]), where=f"record {name!r}"))
        for name in (OWN_RECORD, *VENDOR_RECORDS)
        if name in records
    ]
    if not found:
        raise ContainerError(
            "holds no AIP record, which says what runs on HTA", fix="run xdlc-quantize --enable_hta on it"
        )
    return next((one for one in found if one[1].flavour == OWN_FLAVOUR), found[0])


def content_of(data: TensorData) -> bytes:
    """Return the bytes of a record."""
    content: bytes = data.numpy().tobytes()
    return content


def placed(model: Model, name: str, record: AipRecord) -> list[Placed]:
    """Return the sections of a record with their ops.

    Args:
        model: The model.
        name: Name of the record, for errors.
        record: Its content.

    Raises:
        ContainerError: If sections do not follow each other, or do not cover the model's layers.
    """
    ids = layer_ids(model)
    where = f"record {name!r}"
    _check_cover(record.sections, ids, where, exactly="layers" not in model.metadata)
    members: list[list[Op]] = [[] for _ in record.sections]
    index = 0
    for op, id in ids.items():
        while id > record.sections[index].last:
            index += 1
        members[index].append(op)
    found = []
    for number, (section, ops) in enumerate(zip(record.sections, members, strict=True)):
        place = f"{where}: section {number} (layers {section.first}-{section.last})"
        one = Placed(section, tuple(ops), place)
        if one.is_compiled and not ops:
            refuse("is compiled for HTA but has no operations", place)
        found.append(one)
    return found


def _check_cover(sections: Sequence[Section], ids: Mapping[Op, int], where: str, *, exactly: bool) -> None:
    if not ids or not sections:
        refuse(f"has {len(sections)} sections for {len(ids)} layers", where)
    begin, end = min(ids.values()), max(ids.values())
    if sections[0].first > begin:
        refuse(f"begins at layer {sections[0].first}, the model at layer {begin}", where)
    following = sections[0].first
    for section in sections:
        if section.first != following or section.last < section.first:
            refuse(
                f"has a section of layers {section.first}-{section.last} where layer {following} follows",
                where,
            )
        following = section.last + 1
    if following <= end or (exactly and following != end + 1):
        refuse(f"covers layers up to {following - 1}, the model has layers up to {end}", where)


def check_prints(
    records: Mapping[str, TensorData], name: str, parts: Sequence[tuple[Placed, Part]], *, stated: bool
) -> None:
    """Check that sections were compiled from the ops, weights and encodings that the model has now.

    Args:
        records: Records of the model; without one that tells this, nothing is known.
        name: Name of the AIP record.
        parts: The compiled sections.
        stated: Whether the model's run rounds every value to its encoding.

    Raises:
        ContainerError: If one was compiled from something else, or the record is damaged.
    """
    if name != OWN_RECORD or OWN_FACTS not in records:
        return
    where = f"record {OWN_FACTS!r}"
    try:
        facts = json.loads(content_of(records[OWN_FACTS]))
    except (ValueError, RecursionError) as error:
        raise ContainerError(f"is no JSON: {error}", where=where, fix=AGAIN) from error
    prints = facts.get("sections") if isinstance(facts, dict) else None
    if not isinstance(prints, dict) or facts.get("version") != FACTS_VERSION:
        refuse(f"is no list of sections of version {FACTS_VERSION}", where)
    if parts and facts.get("stated") is not stated:
        refuse("tells of sections that round values otherwise than the model's run does", where)
    for one, part in parts:
        known = prints.get(str(one.section.first))
        if known != fingerprint(part.graph):
            refuse(
                "was compiled from other operations, weights or encodings than the model has now", one.where
            )


def refuse(problem: str, where: str) -> NoReturn:
    """Raise what says that a record does not fit the model.

    Raises:
        ContainerError: Always.
    """
    raise ContainerError(problem, where=where, fix=AGAIN)
