"""Models with cache records that no compiler made: headers and descriptions only."""

from __future__ import annotations

import struct
from typing import Any

from xdlc.container import cache_provenance
from xdlc.container.cache_entry import vendor_name
from xdlc.container.cache_provenance import CacheFacts, GraphFacts
from xdlc.container.caches import add_cache
from xdlc.ir import Graph, Model, ScaleOffset, Tensor
from xdlc.ir.fingerprint import fingerprint
from xdlc.targets import find_soc

BINARY = struct.pack("<4s4sI4sQQQ", bytes(4), bytes(4), 0, bytes(4), 8, 64, 36) + bytes(60)
BUILD = "v2.51.0.260929181845"


def port(tensor: Tensor) -> dict[str, Any]:
    """Return how a cache describes an input or output."""
    fields: dict[str, Any] = {
        "name": tensor.name,
        "dataType": vendor_name(tensor.dtype),
        "dimensions": list(tensor.shape),
    }
    if isinstance(tensor.encoding, ScaleOffset):
        step = struct.unpack("<f", struct.pack("<f", tensor.encoding.scale))[0]
        fields["quantizeParams"] = {"scaleOffset": {"scale": step, "offset": tensor.encoding.offset}}
    return fields


def described(graph: Graph, vtcm_mb: int) -> dict[str, Any]:
    """Return how a cache describes a graph."""
    return {
        "graphName": graph.name,
        "graphInputs": list(map(port, graph.inputs)),
        "graphOutputs": list(map(port, graph.outputs)),
        "graphBlobInfo": {
            "spillFillBufferSize": 65536,
            "optimizationLevel": 2,
            "vtcmSize": vtcm_mb,
            "htpDlbc": 0,
            "numHvxThreads": 0,
        },
        "graphBlobInfoV2": {"ioTensorSize": 4096, "constSize": 8192, "sharedWeightsSize": 0},
    }


def put_cache(
    model: Model,
    soc: str,
    *,
    vtcm_mb: int | None = None,
    build: str = BUILD,
    noted: bool = True,
    graph: Graph | None = None,
) -> str:
    """Put a cache of a graph into a model and return the name of its record.

    Args:
        model: The model.
        soc: The SoC that it is for.
        vtcm_mb: Vector memory that it plans for; default: all that the SoC has.
        build: The library that made it.
        noted: Whether xdlc made it and noted what it was made from.
        graph: What it holds.
    """
    cached_graph, target = graph or model.main, find_soc(soc)
    memory = vtcm_mb if vtcm_mb is not None else target.vtcm_mb or 0
    entry = {
        "header": {},
        "version": "QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3",
        "backendId": 6,
        "buildId": build,
        "coreApiVersion": "2.40.0",
        "backendApiVersion": "5.51.0",
        "socVersion": "",
        "contextBlobVersion": "4.0.6",
        "contextBlobSize": 36,
        "numContextTensors": 0,
        "contextTensors": [],
        "numGraphs": 1,
        "graphs": [described(cached_graph, memory)],
        "platformInfo": {},
        "contextMetadataSize": 8,
        "contextMetadata": {"dspArch": target.arch},
        "socModel": target.id,
    }
    name = add_cache(model, target.name, BINARY, entry)
    if noted:
        facts = CacheFacts(
            {cached_graph.name: GraphFacts(fingerprint(cached_graph), cached_graph.name)},
            memory,
            2,
            None,
            dlbc=False,
            xdlc="0.5.0",
        )
        cache_provenance.write(model, {**cache_provenance.read(model), name: facts})
    return name
