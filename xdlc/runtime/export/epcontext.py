"""Caches as ONNX models of one EPContext node, for onnxruntime's provider."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnx import ModelProto, helper

from xdlc.container import cache_provenance
from xdlc.errors import ConstraintError, UsageError
from xdlc.ir import Graph, Model, ScaleOffset, Tensor
from xdlc.ir.files import replace_file, together
from xdlc.options import spell
from xdlc.runtime.htp.context_binary import binary_of, described

_OPSET, _IR_VERSION = 21, 10
_MOST_EMBEDDED = (1 << 31) - (1 << 20)
"""Bytes of a cache inside a protobuf, which ends at 2 GiB."""
_LONGEST_NAME = 64


def export_epcontext(
    model: Model, folder: Path, stem: str, soc: str | None, *, embed: bool = False
) -> tuple[Path, ...]:
    """Write the cache of a model for a SoC, and an ONNX model for each of its graphs.

    The models name the file of the cache, so that all of them share one; inputs and outputs have the types of
    the cache, and their encodings are in the metadata of the model.

    Args:
        folder: Where the files go.
        stem: Begin of their names.
        soc: Name of the SoC; None denotes the only one.
        embed: Whether each model holds the cache itself.

    Returns:
        The files written.

    Raises:
        UsageError: If the model has no cache for the SoC, or it is too large to be embedded.
        ConstraintError: If the cache holds partitions, between which a CPU computes.
        ContainerError: If the cache is damaged, or its weights are in other records of the DLC.
        StorageError: If a file cannot be written.
    """
    data = binary_of(model, soc)
    cache, graphs = described(model, soc)
    facts = cache_provenance.read(model).get(cache.name)
    if facts is not None and any(part.ops is not None for part in facts.graphs.values()):
        raise ConstraintError(
            "the cache has partitions of the network, and the CPU runs ops between the partitions",
            where=cache.name,
            fix="use a network that runs on HTP without CPU ops",
        )
    if embed and data.nbytes > _MOST_EMBEDDED:
        raise UsageError(
            f"the cache has {data.nbytes} bytes, but an ONNX file holds less than 2 GiB",
            where=cache.name,
            fix=f"omit {spell('embed_context', True)}",
        )
    binary = folder / f"{stem}.{cache.soc}.bin"
    written = [] if embed else [binary]
    with together():
        if not embed:
            replace_file(binary, data.write_to)
        for graph in graphs.values():
            label = re.sub(r"[^A-Za-z0-9._-]", "_", graph.name)[:_LONGEST_NAME]
            path = folder / ".".join([stem, cache.soc, *([label] if len(graphs) > 1 else []), "onnx"])
            if path in written:
                raise UsageError(
                    "xdlc would write two graphs to this file", where=str(path), fix="rename one graph"
                )
            content: Any = bytes(data.content()) if embed else binary.name
            build = (cache.entry or {}).get("buildId", "")
            proto = context_model(graph, content, embed=embed, build=build)
            replace_file(path, proto.SerializeToString(deterministic=True))
            written.append(path)
    return tuple(written)


def context_model(graph: Graph, content: Any, *, embed: bool = False, build: str = "") -> ModelProto:
    """Return the model of one EPContext node.

    Args:
        content: The cache, or the name of its file.
        build: Build of the vendor's library that compiled it.
    """
    inputs, outputs = (list(map(_info, side)) for side in (graph.inputs, graph.outputs))
    node = helper.make_node(
        "EPContext",
        [tensor.name for tensor in graph.inputs],
        [tensor.name for tensor in graph.outputs],
        name=graph.name,
        domain="com.microsoft",
        main_context=1,
        embed_mode=int(embed),
        ep_cache_context=content,
        partition_name=graph.name,
        source="Qnn",
        ep_sdk_version=build,
    )
    proto = onnx_model(graph.name, [node], inputs, outputs)
    encodings = {
        tensor.name: f"scale {tensor.encoding.scale!r} offset {tensor.encoding.offset}"
        for tensor in (*graph.inputs, *graph.outputs)
        if isinstance(tensor.encoding, ScaleOffset)
    }
    helper.set_model_props(proto, encodings)
    return proto


def onnx_model(
    name: str,
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Sequence[Any] = (),
) -> ModelProto:
    """Return a model for the provider, or for a model next to one of its."""
    return helper.make_model(
        helper.make_graph(nodes, name, inputs, outputs, constants),
        opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", 1)],
        ir_version=_IR_VERSION,
        producer_name="xdlc",
    )


def _info(tensor: Tensor) -> Any:
    return helper.make_tensor_value_info(tensor.name, element_type(tensor), list(tensor.shape))


def element_type(tensor: Tensor) -> int:
    """Return the TensorProto.DataType that stores a tensor."""
    return helper.np_dtype_to_tensor_dtype(tensor.dtype.numpy)
