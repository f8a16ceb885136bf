"""Payload of an HTA section that xdlc prepared: a container of its own.

======== ============================================================================================
Bytes    Content
======== ============================================================================================
4        ``XHTA``, which marks the payload as no code of the accelerator
2 + 2    version, 0
...      a container of format 4.1 with one graph and no records
======== ============================================================================================

Version 1 held an integer program; such sections have to be prepared again.
"""

from __future__ import annotations

import struct

from xdlc.container.storage import load_bytes, model_bytes
from xdlc.errors import ContainerError
from xdlc.ir import Graph, Model

MAGIC = b"XHTA"
VERSION = 2
HEADER = struct.Struct("<4sHH")
AGAIN = "prepare the sections again: `xdlc quantize net.dlc -l samples.txt --enable-hta`"


def is_subgraph(payload: bytes | memoryview) -> bool:
    """Return whether a section's payload is xdlc's, not the accelerator's code."""
    return payload[: len(MAGIC)] == MAGIC


def write_subgraph(graph: Graph) -> bytes:
    """Return the payload of a section; equal graphs have equal bytes.

    Raises:
        ContainerError: If something of the graph has no form in a container.
    """
    return HEADER.pack(MAGIC, VERSION, 0) + model_bytes(Model({graph.name: graph}))


def read_subgraph(payload: bytes | memoryview, *, where: str) -> Graph:
    """Return the sub-graph in a section's payload.

    Raises:
        ContainerError: If it is of another version, damaged, or more than one graph.
    """
    if len(payload) < HEADER.size or not is_subgraph(payload):
        raise ContainerError("is not a sub-graph that xdlc wrote", where=where, fix=AGAIN)
    _, version, _ = HEADER.unpack_from(payload)
    if version < VERSION:
        raise ContainerError(
            f"is an integer program (version {version}), which an earlier xdlc wrote", where=where, fix=AGAIN
        )
    if version > VERSION:
        raise ContainerError(
            f"has version {version}; xdlc supports only {VERSION}", where=where, fix="upgrade xdlc"
        )
    try:
        model = load_bytes(memoryview(payload)[HEADER.size :], where)
    except ContainerError as error:
        error.fix = AGAIN
        raise
    if len(model.graphs) != 1 or model.records:
        raise ContainerError(
            f"has {len(model.graphs)} graphs and {len(model.records)} records instead of one graph",
            where=where,
            fix=AGAIN,
        )
    return model.main
