"""Description of a cache in an entry of ``cacheList``, untrusted input.

A field that is missing or of another type than the vendor's writer uses reads as None; nothing here raises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from xdlc.ir import dtype as dt
from xdlc.records import record

_VENDOR_KINDS = {
    "int": "INT",
    "uint": "UINT",
    "float": "FLOAT",
    "sfixed": "SFIXED_POINT",
    "ufixed": "UFIXED_POINT",
}
_ODD_NAMES = {dt.BFLOAT16.name: "BFLOAT_16", dt.BOOL8.name: "BOOL_8"}
_PREFIX = "QNN_DATATYPE_"
_MAX_INT = 1 << 63


def vendor_name(dtype: dt.DType) -> str:
    """Return the vendor's name of a data type.

    Example:
        >>> vendor_name(dt.UFIXED8), vendor_name(dt.BOOL8)
        ('QNN_DATATYPE_UFIXED_POINT_8', 'QNN_DATATYPE_BOOL_8')
    """
    if dtype.name in _ODD_NAMES:
        return _PREFIX + _ODD_NAMES[dtype.name]
    if dtype.kind not in _VENDOR_KINDS:
        return _PREFIX + "UNDEFINED"
    return f"{_PREFIX}{_VENDOR_KINDS[dtype.kind]}_{dtype.bits}"


_OWN_NAMES = {vendor_name(dtype): dtype.name for dtype in dt.BY_CODE.values()}


@record(frozen=True)
class CachedTensor:
    """An input or output of a cached graph.

    Attributes:
        dtype: Its type under our name, or the vendor's if it is unknown.
        scale: Of its encoding, ``float = (quantized + offset) * scale``; None without one.
    """

    name: str | None
    shape: tuple[int, ...] | None
    dtype: str | None
    scale: float | None = None
    offset: int | None = None


@record(frozen=True)
class CachedGraph:
    """A graph of a cache.

    Attributes:
        vtcm_mb: Vector memory that it is planned for, in MB.
        optimization_level: 1 to 3; 0: the library's choice.
        hvx_threads: Threads of the vector unit; 0: all.
        dlbc: Whether feature maps are compressed in memory.
        spill_fill_bytes: Memory for values that do not fit into vector memory.
        io_bytes: Memory of inputs and outputs.
        const_bytes: Weights held in the cache.
        shared_weights_bytes: Weights held in another record.
    """

    name: str | None
    inputs: tuple[CachedTensor, ...]
    outputs: tuple[CachedTensor, ...]
    vtcm_mb: int | None = None
    optimization_level: int | None = None
    hvx_threads: int | None = None
    dlbc: bool | None = None
    spill_fill_bytes: int | None = None
    io_bytes: int | None = None
    const_bytes: int | None = None
    shared_weights_bytes: int | None = None


@record(frozen=True)
class CacheEntry:
    """A cache's entry.

    Attributes:
        soc_id: Number of the SoC in the QNN API.
        arch: Generation of the DSP, like 75 for v75.
        build: Build of the library that made it, like ``v2.51.0.260929181845``.
        core_api: Version of the QNN API.
        backend_api: Version of the HTP's part of it.
        blob_version: Version of the binary's form.
        time: Time of its making, as in the entry.
    """

    soc_id: int | None
    arch: int | None
    build: str | None
    core_api: str | None
    backend_api: str | None
    blob_version: str | None
    blob_bytes: int | None
    time: str | None
    graphs: tuple[CachedGraph, ...]

    @property
    def vtcm_mb(self) -> int | None:
        """Most vector memory that a graph is planned for; None unless known of all.

        0 means all of the SoC's, and is more than any other size.
        """
        held = [graph.vtcm_mb for graph in self.graphs]
        if None in held or 0 in held:
            return None if None in held else 0
        return max((size for size in held if size is not None), default=None)


def read_entry(entry: Mapping[str, Any] | None) -> CacheEntry:
    """Return the content of an entry; of no entry, one without values."""
    fields = _dict(entry)
    return CacheEntry(
        _int(fields.get("socModel")),
        _int(_dict(fields.get("contextMetadata")).get("dspArch")),
        build=_text(fields.get("buildId")),
        core_api=_text(fields.get("coreApiVersion")),
        backend_api=_text(fields.get("backendApiVersion")),
        blob_version=_text(fields.get("contextBlobVersion")),
        blob_bytes=_int(fields.get("contextBlobSize")),
        time=_text(fields.get("timestamp")),
        graphs=tuple(map(_graph, _list(fields.get("graphs")))),
    )


def _graph(value: Any) -> CachedGraph:
    fields = _dict(value)
    facts, more = _dict(fields.get("graphBlobInfo")), _dict(fields.get("graphBlobInfoV2"))
    dlbc = _int(facts.get("htpDlbc"))
    return CachedGraph(
        _text(fields.get("graphName")),
        tuple(map(_tensor, _list(fields.get("graphInputs")))),
        tuple(map(_tensor, _list(fields.get("graphOutputs")))),
        vtcm_mb=_int(facts.get("vtcmSize")),
        optimization_level=_int(facts.get("optimizationLevel")),
        hvx_threads=_int(facts.get("numHvxThreads")),
        dlbc=None if dlbc is None else bool(dlbc),
        spill_fill_bytes=_int(facts.get("spillFillBufferSize")),
        io_bytes=_int(more.get("ioTensorSize")),
        const_bytes=_int(more.get("constSize")),
        shared_weights_bytes=_int(more.get("sharedWeightsSize")),
    )


def _tensor(value: Any) -> CachedTensor:
    fields = _dict(value)
    dims = fields.get("dimensions")
    shape = tuple(map(_int, dims)) if isinstance(dims, list) else None
    name = _text(fields.get("dataType"))
    step = _dict(_dict(fields.get("quantizeParams")).get("scaleOffset"))
    scale, offset = _float(step.get("scale")), _int(step.get("offset"), signed=True)
    has_step = scale is not None and offset is not None
    return CachedTensor(
        _text(fields.get("name")),
        None if shape is None or None in shape else tuple(dim for dim in shape if dim is not None),
        None if name is None else _OWN_NAMES.get(name, name.removeprefix(_PREFIX)),
        scale if has_step else None,
        offset if has_step else None,
    )


def _float(value: Any) -> float | None:
    if not isinstance(value, float | int) or isinstance(value, bool):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _int(value: Any, *, signed: bool = False) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if (-_MAX_INT if signed else 0) <= value < _MAX_INT else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
