"""Description of a context binary, as ``cacheList`` entries have it.

The entry of a cache in ``dlc.metadata2.3.0`` is the library's own description of the binary, printed
as JSON.  Field names and order follow entries that the vendor's writer produced.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from ctypes import POINTER, byref, c_void_p
from typing import Any

from xdlc.container.cache_entry import vendor_name
from xdlc.errors import BackendError
from xdlc.ir import DType
from xdlc.ir import dtype as dt
from xdlc.runtime.htp import structs as st
from xdlc.runtime.htp.library import dotted, load_system

_TENSOR_TYPES = ("APP_WRITE", "APP_READ", "APP_READWRITE", "NATIVE", "STATIC", "NULL")
_MB = 1 << 20


class BinaryDescription:
    """Description of a context binary by the library; valid while this object lives.

    Raises:
        BackendError: If the library cannot read it.
    """

    def __init__(self, binary: bytes | ctypes.Array[ctypes.c_char]) -> None:
        self._library = load_system()
        self._binary = binary
        self._context = c_void_p()
        info = POINTER(st.QnnBinaryInfo)()
        code = self._library.call("contextCreate", byref(self._context))
        if not code:
            code = self._library.call("contextGetMetadata", self._context, binary, len(binary), byref(info))
        if code:
            raise BackendError(
                f"the vendor's library cannot read the cache (QNN error {code})",
                fix="prepare the model again",
            )
        self.info: st.QnnBinaryInfo = info[0]
        if self.info.version != 3:
            raise BackendError(f"the cache has version {self.info.version}; xdlc supports only version 3")

    def graph(self, name: str | None) -> Any:
        """Return the description of a graph; None denotes the only or first one.

        Raises:
            BackendError: If the binary holds no such graph.
        """
        graphs = [self.info.graphs[index] for index in range(self.info.graph_count)]
        for graph in graphs:
            if name is None or _text(graph.name) == name:
                return graph
        held = ", ".join(repr(_text(graph.name)) for graph in graphs) or "none"
        raise BackendError(f"the cache holds no graph {name!r}, only {held}", fix="name a listed graph")

    def entry(self) -> dict[str, Any]:
        """Return the cache's ``cacheList`` entry without name and timestamp."""
        info = self.info
        return {
            "header": {
                "artifact_type": "CONTEXT_BINARY_INFO_UNIFIED",
                "version": {"major": 3, "minor": 0, "patch": 0},
                "header_version": {"major": 0, "minor": 1, "patch": 0},
            },
            "version": "QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3",
            "backendId": info.backend_id,
            "buildId": _text(info.build_id),
            "coreApiVersion": dotted(tuple(info.core_api)),
            "backendApiVersion": dotted(tuple(info.backend_api)),
            "socVersion": _text(info.soc_version),
            "contextBlobVersion": dotted(tuple(info.blob_version)),
            "contextBlobSize": info.blob_size,
            "numContextTensors": info.context_tensor_count,
            "contextTensors": _tensors(info.context_tensors, info.context_tensor_count),
            "numGraphs": info.graph_count,
            "graphs": [_graph(info.graphs[index]) for index in range(info.graph_count)],
            "platformInfo": _platform(info.platform),
            "contextMetadataSize": info.metadata_size,
            "contextMetadata": _metadata(info),
            "socModel": info.soc_model,
        }


def _text(value: bytes | None) -> str:
    return value.decode(errors="replace") if value else ""


def _words(address: int, layout: str) -> tuple[Any, ...]:
    return struct.unpack(layout, ctypes.string_at(address, struct.calcsize(layout)))


def _graph(graph: st.QnnGraphInfo) -> dict[str, Any]:
    return {
        "version": "QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_3",
        "graphName": _text(graph.name),
        "numGraphInputs": graph.input_count,
        "graphInputs": _tensors(graph.inputs, graph.input_count),
        "numGraphOutputs": graph.output_count,
        "graphOutputs": _tensors(graph.outputs, graph.output_count),
        "numUpdateableTensors": graph.updateable_count,
        "updateableTensors": _tensors(graph.updateables, graph.updateable_count),
        "graphBlobInfoSize": graph.blob_size,
        **_blob(graph),
        "startOpIndex": graph.start_op,
        "endOpIndex": graph.end_op,
    }


_BLOB_V1 = "<I4xQIIB7xQ"
_BLOB_V2 = "<I4xQQB7xQQQQQ"


def _blob(graph: st.QnnGraphInfo) -> dict[str, Any]:
    """Return HTP's facts about a graph: two structs in sequence.

    The second one's layout was found by comparing its numbers with those of a written entry.
    """
    size = struct.calcsize(_BLOB_V1)
    if not graph.blob or graph.blob_size < size + struct.calcsize(_BLOB_V2):
        raise BackendError(f"the cache has {graph.blob_size} bytes of graph facts, but needs at least 112")
    version, spill, vtcm, level, dlbc, threads = _words(graph.blob, _BLOB_V1)
    second, k_size, v_size, safe, io_size, op_size, const_size, ddr_size, shared = _words(
        graph.blob + size, _BLOB_V2
    )
    if (version, second) != (1, 2):
        raise BackendError(
            f"the cache has graph facts of versions {version} and {second}; xdlc reads only 1 and 2"
        )
    return {
        "graphBlobInfo": {
            "version": "QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_VERSION_V1",
            "spillFillBufferSize": spill,
            "optimizationLevel": level,
            "vtcmSize": vtcm // _MB,
            "htpDlbc": dlbc,
            "numHvxThreads": threads,
        },
        "graphBlobInfoV2": {
            "version": "QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_VERSION_V2",
            "nativeKChannelSize": k_size,
            "nativeVChannelSize": v_size,
            "isSafeShareIO": safe,
            "ioTensorSize": io_size,
            "opDataSize": op_size,
            "constSize": const_size,
            "ddrTensorSize": ddr_size,
            "sharedWeightsSize": shared,
        },
    }


def _tensors(tensors: Any, count: int) -> list[dict[str, Any]]:
    return [_tensor(tensors[index]) for index in range(count)]


def _tensor(tensor: st.QnnTensor) -> dict[str, Any]:
    return {
        "version": f"QNN_TENSOR_VERSION_{tensor.version}",
        "id": tensor.id,
        "name": _text(tensor.name),
        "type": f"QNN_TENSOR_TYPE_{_TENSOR_TYPES[tensor.type]}",
        "dataFormat": "QNN_TENSOR_DATA_FORMAT_FLAT_BUFFER",
        "dataType": vendor_name(tensor_dtype(tensor)),
        "rank": tensor.rank,
        "dimensions": list(shape(tensor)),
        "memType": "QNN_TENSORMEMTYPE_RAW",
        "quantizeParams": _quantize_params(tensor),
    }


def _quantize_params(tensor: st.QnnTensor) -> dict[str, Any]:
    encoding = scale_offset(tensor)
    if encoding is None:
        return {
            "definition": "QNN_DEFINITION_UNDEFINED",
            "quantizationEncoding": "QNN_QUANTIZATION_ENCODING_UNDEFINED",
        }
    return {
        "definition": "QNN_DEFINITION_DEFINED",
        "quantizationEncoding": "QNN_QUANTIZATION_ENCODING_SCALE_OFFSET",
        "scaleOffset": {"scale": encoding[0], "offset": encoding[1]},
    }


def shape(tensor: st.QnnTensor) -> tuple[int, ...]:
    """Return a tensor's shape."""
    return tuple(tensor.dims[axis] for axis in range(tensor.rank))


def tensor_dtype(tensor: st.QnnTensor) -> DType:
    """Return a tensor's data type; UNDEFINED if the code is unknown."""
    return dt.BY_CODE.get(tensor.data_type, dt.UNDEFINED)


def scale_offset(tensor: st.QnnTensor) -> tuple[float, int] | None:
    """Return scale and offset of a graph input or output, or None.

    Raises:
        BackendError: If the encoding is not one of a whole tensor, which graph I/O always has.
    """
    if tensor.quantize.definition != 1:
        return None
    address = ctypes.addressof(tensor) + st.QnnTensor.quantize.offset + st.QnnQuantizeParams.union.offset
    if tensor.quantize.encoding == st.SCALE_OFFSET:
        one = st.QnnScaleOffset.from_address(address)
        return one.scale, one.offset
    if tensor.quantize.encoding == st.BITS:
        some = st.QnnBits.from_address(address)
        return some.scale, some.offset
    raise BackendError(f"tensor {_text(tensor.name)!r} has the unknown encoding {tensor.quantize.encoding}")


def _platform(address: int | None) -> dict[str, Any]:
    devices: list[dict[str, Any]] = []
    if address:
        _, count, pointer = _words(address, "<I4xI4xQ")
        devices = _each(pointer, count, 40, _device)
    return {
        "version": "QNN_DEVICE_PLATFORM_INFO_VERSION_1",
        "numHwDevices": len(devices),
        "hwDevices": devices,
    }


def _device(address: int) -> dict[str, Any]:
    _, number, kind, count, pointer = _words(address, "<I4xIII4xQ")
    return {
        "version": "QNN_DEVICE_HARDWARE_DEVICE_INFO_VERSION_1",
        "deviceId": number,
        "deviceType": kind,
        "numCores": count,
        "cores": _each(pointer, count, 24, _core),
    }


def _core(address: int) -> dict[str, Any]:
    _, number, kind = _words(address, "<I4xII")
    return {"version": "QNN_DEVICE_CORE_INFO_VERSION_1", "coreId": number, "coreType": kind}


def _each(
    address: int, count: int, size: int, describe: Callable[[int], dict[str, Any]]
) -> list[dict[str, Any]]:
    return [describe(address + index * size) for index in range(count)]


def _metadata(info: st.QnnBinaryInfo) -> dict[str, Any]:
    if not info.metadata or info.metadata_size < 8:
        raise BackendError("the cache does not state its architecture")
    _, arch = _words(info.metadata, "<II")
    return {"version": "QNN_SYSTEM_CONTEXT_HTP_CONTEXT_INFO_BLOB_VERSION_V1", "dspArch": arch}
