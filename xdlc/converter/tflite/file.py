"""Opened TFLite file: checked tables, operators by name, constants as lazy data."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.container.flatbuffer import TRUNCATED, decode
from xdlc.converter import weights
from xdlc.converter.session.context import Allowance
from xdlc.converter.session.node import cut_before
from xdlc.converter.tflite.tensors import (
    DTYPES,
    PACKED,
    TensorInfo,
    layout,
    read_blocks,
    read_quantization,
    reals,
    unpacked,
)
from xdlc.errors import ContainerError, ModelError, UnsupportedOp, damaged
from xdlc.schema._generated import tflite as schema
from xdlc.schema.table import Table

CUSTOM = 32

NAMES = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP
FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX
SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD
UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE
UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX
DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER
GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL
NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT
LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE
RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2
ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND
HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY
SEGMENT_SUM BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D
IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL
CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL
BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD
UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR
RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM
STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION
STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE
STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR
STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH
STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE
STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL
STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE
STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT
STABLEHLO_CASE
""".split()  # noqa: SIM905 - a list literal would be 200 lines
"""Operators by their number in BuiltinOperator of the TFLite schema."""

_ODD: dict[str, type[Table]] = {
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), schema.Pool2DOptions),
    "CONV_3D_TRANSPOSE": schema.Conv3DOptions,
    "L2_NORMALIZATION": schema.L2NormOptions,
    "BATCH_MATMUL": schema.BatchMatMulOptions,
    **dict.fromkeys(
        ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL"),
        schema.ReducerOptions,
    ),
    "UNIDIRECTIONAL_SEQUENCE_RNN": schema.SequenceRNNOptions,
    **dict.fromkeys(("RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "MULTINOMIAL"), schema.RandomOptions),
}


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


_BY_NAME: dict[str, type[Table]] = {
    _plain(found.__name__.removesuffix("Options")): found
    for union in (schema.BuiltinOptions, schema.BuiltinOptions2)
    for found in union.values()
}


def options_of(name: str) -> type[Table] | None:
    """Return the table of an operator's options; None if it has no options."""
    return _ODD.get(name) or _BY_NAME.get(_plain(name))


@cache
def defaults_of(name: str) -> Mapping[str, Any]:
    """Return the values of the options that an operator omits."""
    table = options_of(name)
    fields = () if table is None else table.FIELDS
    return {field.name: field.default for field in fields if field.default is not None}


_FLOAT32 = 0
_UNSET = 1
"""Offset of a buffer up to which it is not set (TFLite schema)."""
_LEAST_DENSE, _SPARSEST = 1 << 26, 64
"""Bytes that sparse tensors of a file may have when dense: so many, or so many times those of the file."""
_MOST_OPTIONS = 1 << 24


class TfliteFile:
    """A TFLite model whose weights stay in the file.

    Attributes:
        tensors: Tensors by sub-graph.

    Raises:
        ModelError: If it breaks the format's rules.
    """

    def __init__(self, path: str | os.PathLike[str], is_float: bool = False) -> None:
        self.path = Path(path)
        self._is_float = is_float
        self._file = ir.MappedFile(path)
        self._external: dict[str, ir.MappedFile] = {}
        self._dense = Allowance(max(_LEAST_DENSE, _SPARSEST * self._file.size))
        try:
            self.model = decode(self._file.view(0, self._file.size), schema.Model, str(path))
        except ContainerError as error:
            is_cut = error.problem.startswith(TRUNCATED)
            fix = "copy or download the file again" if is_cut else "check that the path names a .tflite file"
            raise ModelError(error.problem, where=error.where, fix=fix) from error
        if self.model.version != 3:
            raise self.damaged(f"the file has schema version {self.model.version}; TFLite has version 3")
        if not self.model.subgraphs:
            raise self.damaged("the file has no sub-graph")
        self.tensors = [self._tensors(number) for number in range(len(self.model.subgraphs))]

    def damaged(self, problem: str) -> ModelError:
        """Return the error for a file that breaks the format's rules."""
        return damaged(problem, str(self.path))

    @property
    def nbytes(self) -> int:
        """Size of the file."""
        return self._file.size

    @cached_property
    def operators(self) -> list[str]:
        """Operator of each operator code: its builtin or custom name."""
        return [self._operator(code) for code in self.model.operator_codes or ()]

    def _operator(self, code: Any) -> str:
        number = max(code.deprecated_builtin_code, code.builtin_code)
        if not 0 <= number < len(NAMES):
            raise self.damaged(f"the file has operator code {number}; TFLite has {len(NAMES)}")
        if number != CUSTOM:
            return str(NAMES[number])
        if not code.custom_code or code.custom_code in NAMES:
            raise self.damaged(f"the file has a custom operator named {code.custom_code!r}")
        return str(code.custom_code)

    def index(self, number: int, what: str, entries: Sequence[Any]) -> int:
        """Return an index that the file states.

        Raises:
            ModelError: If there is no such entry.
        """
        if not 0 <= number < len(entries):
            raise self.damaged(f"the file names {what} {number}, but has only {len(entries)}")
        return number

    def _tensors(self, graph: int) -> list[TensorInfo]:
        """Return the tensors of a sub-graph under unique names.

        Inputs and outputs come first: the first of a name has it as the file states it.  A second output of
        a name has its position added (``y#1``), any other tensor its number (``y#12``).
        """
        table = self.model.subgraphs[graph]  # type: ignore[index]
        tables: Sequence[Any] = table.tensors or ()
        suffixes = {number: str(number) for number in range(len(tables))}
        for position, number in reversed(list(enumerate(table.outputs or ()))):
            suffixes[number] = str(position)
        names: dict[int, str] = {}
        taken: set[str] = set()
        for number in (*(table.inputs or ()), *(table.outputs or ()), *range(len(tables))):
            self.index(number, "tensor", tables)
            if number in names:
                continue
            name = tables[number].name or f"tensor_{number}"
            while name in taken:
                name = f"{name}#{suffixes[number]}"
            taken.add(name)
            names[number] = name
        tensors = [
            self._tensor(
                index,
                names[index],
                entry,
                f"{self.path}: sub-graph {graph}: tensor {index} {names[index]!r}",
            )
            for index, entry in enumerate(tables)
        ]
        tensors = [self._with_parameters(tensor, tables[tensor.index], tensors) for tensor in tensors]
        return list(map(_floats, tensors)) if self._is_float else tensors

    def _with_parameters(self, tensor: TensorInfo, table: Any, tensors: Sequence[TensorInfo]) -> TensorInfo:
        """Return a tensor with scales and zero points from the tensors that store them."""
        details: Any = getattr(table.quantization, "details", None)
        if details is None:
            return tensor
        if not hasattr(details, "scales"):
            problem = (
                f"the tensor has {type(details).__name__}, a custom quantization, which xdlc does not support"
            )
            raise ModelError(problem, where=tensor.where, fix="export the model with scales and zero points")
        axes: Any = getattr(details, "quantized_dimensions", None)
        scales = self._parameters(details.scales, tensors)
        zeros = self._parameters(details.zero_points, tensors) if details.zero_points > 0 else None
        if scales is None or self.data(tensor) is None:
            problem = "the tensor has tensors as scales, which only constants support"
            raise ModelError(problem, where=tensor.where, fix="export the model again")
        found = read_blocks(tensor.shape, list(axes if axes is not None else ()), scales, zeros, tensor.where)
        return replace(tensor, quantization=found)

    def _parameters(self, index: int, tensors: Sequence[TensorInfo]) -> Any:
        """Return the elements of a constant; None if the tensor is computed."""
        data = self.data(tensors[self.index(index, "tensor", tensors)])
        return None if data is None else data.numpy()

    def _tensor(self, index: int, name: str, table: Any, where: str) -> TensorInfo:
        shape = tuple(table.shape or ())
        signature = tuple(table.shape_signature or ()) or shape
        if len(signature) != len(shape) or min(signature, default=0) < -1 or min(shape, default=0) < 0:
            raise damaged(f"the tensor has shape {list(shape)} and shape signature {list(signature)}", where)
        quantization = read_quantization(table.quantization, shape, where)
        stated = table.name or ""
        self.index(table.buffer, "buffer", self.model.buffers or ())
        return TensorInfo(
            index,
            where,
            name,
            stated,
            shape,
            signature,
            table.type,
            quantization,
            table.is_variable,
            table.buffer,
            table.external_buffer,
            table.sparsity,
        )

    def read(self, first: int, size: int, what: str) -> bytes:
        """Return bytes of the file that follow the flatbuffer.

        Raises:
            ModelError: If they are outside of the file.
            UnsupportedOp: If there are too many.
        """
        if first + size > self._file.size:
            raise self.damaged(
                f"the file has {what} at bytes {first} to {first + size}, but only {self._file.size} bytes"
            )
        if size > _MOST_OPTIONS:
            fix = cut_before()
            raise UnsupportedOp(
                f"the file has {size} bytes of {what}, which is too many", where=str(self.path), fix=fix
            )
        return bytes(self._file.view(first, size))

    def data(self, tensor: TensorInfo) -> ir.TensorData | None:
        """Return the elements of a constant; None if the tensor is computed.

        Raises:
            ModelError: If the data do not fit the tensor or the file.
        """
        source = tensor.stored
        if source is not None and source.quantization is not None:
            quantization, stored = source.quantization, self.data(source)
            return stored and stored.transform(lambda array: reals(array, quantization), dtype=np.float32)
        place = self._range(tensor)
        if place is None or tensor.type not in DTYPES:
            return None
        dtype, shape = tensor.dtype, tensor.shape
        sparse = None if tensor.sparsity is None else layout(tensor.sparsity, shape, tensor.where)
        if sparse is not None:
            if not self._dense.take(math.prod(shape) * dtype.itemsize):
                raise UnsupportedOp(
                    "the sparse tensor has too many elements for the size of the file",
                    where=tensor.where,
                    fix="convert the model with dense weights",
                )
            shape = (sparse.stored,)
        count = math.prod(shape)
        if dtype.name in PACKED:
            size = (count * PACKED[dtype.name] + 7) // 8
            packed = weights.mapped(*place, [size], np.dtype(np.uint8), tensor.where)
            data = packed.transform(lambda array: unpacked(array, dtype, shape), shape=shape, dtype=dtype)
        else:
            data = weights.mapped(*place, shape, dtype, tensor.where)
        return data if sparse is None else data.transform(sparse.dense, shape=tensor.shape)

    def _range(self, tensor: TensorInfo) -> tuple[ir.MappedFile, int, int] | None:
        """Return file, first byte and length of a tensor's data; None if it has none."""
        if tensor.external:
            return self._external_range(tensor)
        buffers: Sequence[Any] = self.model.buffers or ()
        buffer = buffers[tensor.buffer]
        if buffer.offset > _UNSET:
            return self._file, buffer.offset, buffer.size
        if not tensor.buffer or not buffer.data:
            return None
        return self._file, buffer.data.start, len(buffer.data)

    @cached_property
    def _external_buffers(self) -> dict[int, Any]:
        return {each.id: each for each in self.model.external_buffers or ()}

    def _external_range(self, tensor: TensorInfo) -> tuple[ir.MappedFile, int, int]:
        """Return the range of another file with the data of a tensor."""
        buffer = self._external_buffers.get(tensor.external)
        groups: Sequence[Any] = self.model.external_buffer_groups or ()
        if buffer is None:
            raise self.damaged(
                f"the file lacks the external buffer {tensor.external} of tensor {tensor.name!r}"
            )
        name = groups[self.index(buffer.group, "external buffer group", groups)].name or ""
        if buffer.packing:
            raise UnsupportedOp(
                f"the data in {name!r} have the packing {buffer.packing!r}, which xdlc does not support",
                where=tensor.where,
                fix="convert the model with its weights inside the file",
            )
        if name not in self._external:
            self._external[name] = ir.MappedFile(weights.beside(self.path, name, tensor.where))
        return self._external[name], buffer.offset, buffer.length


def _floats(tensor: TensorInfo) -> TensorInfo:
    """Return a tensor of float values in place of a quantized one."""
    if tensor.quantization is None or tensor.type not in DTYPES or tensor.dtype.name.startswith("float"):
        return tensor
    return replace(tensor, type=_FLOAT32, quantization=None, stored=tensor)
