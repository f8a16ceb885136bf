"""ctypes mirrors of the QNN API structs in use (x86-64 layouts).

The API passes some structs by value, and ctypes passes no unions by value: a union is declared as
plain words here and laid over with ``from_address`` or ``from_buffer``.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_float, c_int32, c_uint8, c_uint32, c_uint64, c_void_p

UNDEFINED = 0x7FFFFFFF

# Qnn_QuantizationEncoding_t
SCALE_OFFSET, AXIS, BITS, BITS_AXIS, BLOCK, BLOCKWISE_EXPANSION = range(6)
FLOAT_BLOCK = 11


class QnnQuantizeParams(Structure):
    """Qnn_QuantizeParams_t; for ``definition`` 1 with the encoding in the union."""

    _fields_ = (("definition", c_uint32), ("encoding", c_uint32), ("union", c_uint64 * 4))


class QnnScaleOffset(Structure):
    """Encoding 0, and the element of the lists in encodings 1 and 5."""

    _fields_ = (("scale", c_float), ("offset", c_int32))


class QnnAxis(Structure):
    """Encoding 1."""

    _fields_ = (("axis", c_int32), ("count", c_uint32), ("items", POINTER(QnnScaleOffset)))


class QnnBits(Structure):
    """Encoding 2."""

    _fields_ = (("bits", c_uint32), ("scale", c_float), ("offset", c_int32))


class QnnBitsAxis(Structure):
    """Encoding 3."""

    _fields_ = (
        ("bits", c_uint32),
        ("axis", c_int32),
        ("count", c_uint32),
        ("scales", POINTER(c_float)),
        ("offsets", POINTER(c_int32)),
    )


class QnnFloatBlock(Structure):
    """Encoding 11; an item is a scale and an offset in float32.

    Output channels follow each other, and within them the blocks.
    """

    _fields_ = (("bits", c_uint32), ("block_shape", POINTER(c_uint32)), ("items", c_void_p))


class QnnExpansion(Structure):
    """Data of encoding 5; ``storage`` 0 stores block scales in 8 bits, 1 in 16."""

    _fields_ = (
        ("axis", c_int32),
        ("items", POINTER(QnnScaleOffset)),
        ("blocks_per_axis", c_uint32),
        ("scale_bits", c_uint32),
        ("storage", c_uint32),
        ("block_scales", c_void_p),
    )


class QnnTensor(Structure):
    """Qnn_Tensor_t of version 2; version 1 ends after ``client_size``."""

    _fields_ = (
        ("version", c_uint32),
        ("_align", c_uint32),
        ("id", c_uint32),
        ("name", c_char_p),
        ("type", c_uint32),
        ("data_format", c_uint32),
        ("data_type", c_uint32),
        ("quantize", QnnQuantizeParams),
        ("rank", c_uint32),
        ("dims", POINTER(c_uint32)),
        ("mem_type", c_uint32),
        ("client_data", c_void_p),
        ("client_size", c_uint32),
        ("dynamic", POINTER(c_uint8)),
        ("sparse_layout", c_uint32),
        ("sparse_counts", c_uint32 * 2),
        ("produced", c_uint8),
    )


class QnnScalar(Structure):
    """Qnn_Scalar_t."""

    _fields_ = (("data_type", c_uint32), ("value", c_uint64))


class QnnParam(Structure):
    """Qnn_Param_t: ``payload`` is a QnnScalar for ``kind`` 0, a QnnTensor for 1."""

    _fields_ = (("kind", c_uint32), ("name", c_char_p), ("payload", c_uint64 * 18))


class QnnOpConfig(Structure):
    """Qnn_OpConfig_t, which the API receives by value."""

    _fields_ = (
        ("version", c_uint32),
        ("name", c_char_p),
        ("package", c_char_p),
        ("type", c_char_p),
        ("param_count", c_uint32),
        ("params", POINTER(QnnParam)),
        ("input_count", c_uint32),
        ("inputs", POINTER(QnnTensor)),
        ("output_count", c_uint32),
        ("outputs", POINTER(QnnTensor)),
    )


class QnnGraphInfo(Structure):
    """QnnSystemContext_GraphInfo_t, version 3."""

    _fields_ = (
        ("version", c_uint32),
        ("name", c_char_p),
        ("input_count", c_uint32),
        ("inputs", POINTER(QnnTensor)),
        ("output_count", c_uint32),
        ("outputs", POINTER(QnnTensor)),
        ("updateable_count", c_uint32),
        ("updateables", POINTER(QnnTensor)),
        ("blob_size", c_uint32),
        ("blob", c_void_p),
        ("start_op", c_uint32),
        ("end_op", c_uint32),
    )


class QnnBinaryInfo(Structure):
    """QnnSystemContext_BinaryInfo_t, version 3."""

    _fields_ = (
        ("version", c_uint32),
        ("_align", c_uint32),
        ("backend_id", c_uint32),
        ("build_id", c_char_p),
        ("core_api", c_uint32 * 3),
        ("backend_api", c_uint32 * 3),
        ("soc_version", c_char_p),
        ("blob_version", c_uint32 * 3),
        ("blob_size", c_uint64),
        ("context_tensor_count", c_uint32),
        ("context_tensors", POINTER(QnnTensor)),
        ("graph_count", c_uint32),
        ("graphs", POINTER(QnnGraphInfo)),
        ("platform", c_void_p),
        ("metadata_size", c_uint32),
        ("metadata", c_void_p),
        ("soc_model", c_uint32),
    )


class QnnConfig(Structure):
    """An element of a graph, device or context configuration; 0 is custom."""

    _fields_ = (("option", c_uint32), ("custom", c_void_p))


class HtpConfig(Structure):
    """QnnHtpGraph_CustomConfig_t, QnnHtpDevice_CustomConfig_t: words from offset 8."""

    _fields_ = (("option", c_uint32), ("_align", c_uint32), ("words", c_uint32 * 6))


class ProfileConfig(Structure):
    """QnnProfile_Config_t with ``enableOptrace``."""

    _fields_ = (("option", c_uint32), ("_align", c_uint32), ("value", c_uint64))


def config_list(options: list[HtpConfig]) -> tuple[ctypes.Array[c_void_p], list[object]]:
    """Return a NULL-terminated list of options, and the objects to keep alive."""
    configs = [QnnConfig(0, ctypes.addressof(option)) for option in options]
    pointers = (c_void_p * (len(configs) + 1))(*[ctypes.addressof(config) for config in configs], None)
    return pointers, [*options, *configs]
