"""HTP caches of a model: records ``htp.cache.<soc>.<n>`` and ``cacheList``.

The vendor's library skips a record without an entry, drops an entry without a record, shows no cache at
all if one record is damaged, and crashes on an entry with missing fields.  The functions here keep records
and entries consistent and refuse such content.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from xdlc.container.metadata import timestamp
from xdlc.errors import ContainerError
from xdlc.ir import MappedData, MappedFile, Model, TensorData, raw_data
from xdlc.ir.dtype import UINT8
from xdlc.options import spell
from xdlc.records import record

if TYPE_CHECKING:
    from xdlc.container.cache_provenance import CacheFacts

PREFIX = "htp.cache."
SHARED = ("htp.shared.", "htp.metadata.")
WEIGHTS = "htp.shared.weights."
DESCRIPTION = "htp.metadata.shared_weights.{}_metadata"
NAME = re.compile(r"htp\.cache\.(?P<soc>[^.]+)\.(?P<number>\d+)")
# Two versions, a zero, another version, then bytes of metadata, offset and bytes of the binary.
HEADER = struct.Struct("<4s4sI4sQQQ")
_MOST_VERSION = 1 << 8
NEEDED = (
    "header",
    "version",
    "backendId",
    "buildId",
    "coreApiVersion",
    "backendApiVersion",
    "socVersion",
    "contextBlobVersion",
    "contextBlobSize",
    "numContextTensors",
    "contextTensors",
    "numGraphs",
    "graphs",
    "platformInfo",
    "contextMetadataSize",
    "contextMetadata",
    "socModel",
    "timestamp",
)


@record(frozen=True)
class Cache:
    """A compiled cache.

    Attributes:
        soc: SoC in the name, in lower case.
        entry: Its entry of ``cacheList``; None if it has none, so that the vendor does not find it.
        data: The record; None if it is missing.
        weights: Weights in records of their own, by record.
    """

    name: str
    soc: str
    entry: Mapping[str, Any] | None
    data: TensorData | None
    weights: Mapping[str, TensorData] = field(default_factory=dict)

    @property
    def problem(self) -> str | None:
        """Reason why the vendor's library finds no or a wrong cache; or None.

        The library accepts a cache whose record is named after another SoC than it was compiled for.
        """
        if self.data is None:
            return "is listed but has no record"
        if self.entry is None:
            return "has a record but is not listed"
        missing = [key for key in NEEDED if key not in self.entry]
        if missing:
            return f"is listed without {', '.join(missing)}"
        from xdlc.targets import all_socs

        named = next((soc.id for soc in all_socs() if self.soc in (soc.name, *soc.aliases)), None)
        found = self.entry["socModel"]
        if named is not None and found != named:
            return f"is named after {self.soc}, which has the id {named}, but was compiled for the id {found}"
        return damage(self.data)


def damage(data: TensorData) -> str | None:
    """Return what is wrong with the length of a context binary, or None."""
    if data.nbytes < HEADER.size:
        return f"has {data.nbytes} bytes, less than its header"
    fields = HEADER.unpack(data.content()[: HEADER.size])
    described, offset, size = fields[4:]
    if HEADER.size + described > offset or offset + size > data.nbytes:
        return f"has {data.nbytes} bytes, but its header needs {max(offset + size, HEADER.size + described)}"
    return None


def holds_binary(data: TensorData) -> bool:
    """Return whether bytes begin like a context binary."""
    if data.nbytes < HEADER.size:
        return False
    first, second, zero, third, described, offset, _ = HEADER.unpack(data.content()[: HEADER.size])
    versions = [int.from_bytes(word, "big") for word in (first, second, third)]
    is_numbered = zero == 0 and all(0 < version < _MOST_VERSION for version in versions)
    return is_numbered and HEADER.size + described <= offset


def is_context_binary(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins like a context binary.

    Raises:
        StorageError: If it cannot be read.
    """
    return holds_binary(file_data(path))


def file_data(path: str | os.PathLike[str]) -> TensorData:
    """Return the bytes of a file as data.

    Raises:
        StorageError: If it cannot be read.
    """
    file = MappedFile(path)
    return MappedData(file, 0, (file.size,), UINT8)


def caches(model: Model) -> list[Cache]:
    """Return the caches of a model: first those with a record, then those only listed."""
    listed = {str(entry.get("cacheName")): entry for entry in model.metadata.get("cacheList", ())}
    names = [name for name in model.records if name.startswith(PREFIX)]
    names += [name for name in listed if name not in model.records]
    return [
        Cache(name, _soc(name), listed.get(name), model.records.get(name), _weights(model, name))
        for name in names
    ]


def _weights(model: Model, name: str) -> Mapping[str, TensorData]:
    names = shared_weights(model, name)
    return {
        child: model.records[child] for child in names if child.startswith(WEIGHTS) and child in model.records
    }


def changed_content(cache: Cache, facts: CacheFacts | None) -> str | None:
    """Return the hash of a cache and its weights if it is not the stored one."""
    if facts is None or facts.content is None or cache.data is None:
        return None
    from xdlc.container import cache_provenance

    present = cache_provenance.content_hash(cache.data, cache.weights)
    return None if present == facts.content else present


def shared_weights(model: Model, name: str) -> list[str]:
    """Return the names of records, maybe missing, of weights that caches share."""
    children = [
        child
        for item in model.metadata.get("relations", ())
        if item.get("parentRecordName") == name
        for child in item.get("childRecordNames", ())
        if child.startswith(SHARED)
    ]
    return list(dict.fromkeys(children))


def shares_weights(model: Model, cache: Cache) -> bool:
    """Return whether a cache shares weights, so that the emulation does not load it."""
    from xdlc.container.cache_entry import read_entry

    graphs = read_entry(cache.entry).graphs
    return bool(shared_weights(model, cache.name)) or any(graph.shared_weights_bytes for graph in graphs)


def _soc(name: str) -> str:
    match = NAME.fullmatch(name)
    return match["soc"] if match else ""


def add_cache(
    model: Model,
    soc_name: str,
    data: TensorData | bytes,
    entry: Mapping[str, Any],
    shared: Mapping[str, TensorData] = MappingProxyType({}),
) -> str:
    """Add a compiled cache to a model; return the name of its record.

    Args:
        model: The model; its records and its ``cacheList`` change together.
        soc_name: SoC such as ``sm8650``; the record's name has it in lower case.
        entry: Its description for ``cacheList``, complete but for ``cacheName`` and perhaps ``timestamp``.
        shared: Weights in records of their own and their descriptions, by record; the model may have them
            already, of another SoC.

    Raises:
        ContainerError: If the binary is truncated, the description incomplete, the name unfit, or the
            model has other weights under a name of ``shared``.
    """
    soc = soc_name.lower()
    number = 0
    while f"{PREFIX}{soc}.{number}" in model.records:
        number += 1
    name = f"{PREFIX}{soc}.{number}"
    record = raw_data(data) if isinstance(data, bytes) else data
    header = {"header": entry["header"]} if "header" in entry else {}
    described = header | {"cacheName": name} | {key: entry[key] for key in entry if key != "cacheName"}
    described.setdefault("timestamp", timestamp())
    problem = Cache(name, soc, described, record).problem
    if not _soc(name):
        problem = "has a name that is not a SoC in one word"
    if problem:
        raise ContainerError(
            problem,
            where=f"cache {name!r}",
            fix="compile the cache again; a damaged cache hides all other caches",
        )
    _add_shared(model, name, shared)
    model.records[name] = record
    model.metadata["cacheList"] = [*model.metadata.get("cacheList", ()), described]
    return name


def _add_shared(model: Model, cache: str, shared: Mapping[str, TensorData]) -> None:
    relations: dict[str, list[str]] = {cache: []}
    for name, data in shared.items():
        held = model.records.get(name)
        if held is not None and not _equal(held, data):
            raise ContainerError(
                "the model already has this record with different content",
                where=f"record {name!r}",
                fix=f"prepare all SoCs again with {spell('overwrite_cache_records', True)}",
            )
        if name.startswith(WEIGHTS):
            relations[cache].append(name)
            relations[DESCRIPTION.format(name.removeprefix(WEIGHTS))] = [name]
    unknown = [name for name in shared if not name.startswith(WEIGHTS) and name not in relations]
    if unknown:
        raise ContainerError("describes weights that the file does not have", where=f"record {unknown[0]!r}")
    model.records.update(shared)
    listed = model.metadata.get("relations", [])
    known = {item.get("parentRecordName") for item in listed}
    added = [
        {"parentRecordName": parent, "childRecordNames": children, "timestamp": timestamp()}
        for parent, children in relations.items()
        if children and parent not in known
    ]
    if added:
        model.metadata["relations"] = [*listed, *added]


def _equal(first: TensorData, second: TensorData) -> bool:
    return first.content() == second.content()


def remove_caches(model: Model, soc: str | None = None) -> list[str]:
    """Remove the caches of one SoC, or all; return the names of the records removed.

    Weights that only these caches shared are removed too, and so is their provenance.

    Raises:
        ContainerError: If that record is damaged, and caches of other SoCs stay.
    """
    from xdlc.container import cache_provenance

    wanted = None if soc is None else soc.lower()
    gone = [cache.name for cache in caches(model) if wanted is None or cache.soc == wanted]
    if not gone:
        return []
    if wanted is None:
        model.records.pop(cache_provenance.RECORD, None)
    else:
        cache_provenance.drop(model, gone)
    kept = [entry for entry in model.metadata.get("cacheList", ()) if entry.get("cacheName") not in gone]
    removed = [name for name in gone if model.records.pop(name, None) is not None]
    relations = [
        item for item in model.metadata.get("relations", ()) if item.get("parentRecordName") not in gone
    ]
    removed += _drop_shared(model, relations)
    relations = [item for item in relations if item.get("parentRecordName") in model.records]
    for key, value in (("cacheList", kept), ("relations", relations)):
        model.metadata.pop(key, None)
        if value:
            model.metadata[key] = value
    return removed


def _drop_shared(model: Model, relations: list[Any]) -> list[str]:
    """Remove shared weights, and their descriptions, that no cache refers to any more."""
    used = {
        child
        for item in relations
        if str(item.get("parentRecordName")).startswith(PREFIX)
        for child in item.get("childRecordNames", ())
    }
    describing = {
        item.get("parentRecordName")
        for item in relations
        if used.intersection(item.get("childRecordNames", ()))
    }
    gone = [name for name in model.records if name.startswith(SHARED) and name not in used | describing]
    for name in gone:
        del model.records[name]
    return gone
