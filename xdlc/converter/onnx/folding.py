"""Evaluates nodes whose inputs are all known, so that importers only see real computation.

A file may come from anyone, and a few bytes of it can ask for terabytes or for years.  So only operators
are evaluated whose work follows from the size of their inputs and outputs, that size is known before
they run, and a model has a budget of such work, in proportion to its own size.  What is not evaluated
stays an op of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdlc.converter.onnx.registry import MICROSOFT
from xdlc.errors import ModelError
from xdlc.runtime.host_kernels import HOST_OPSET

if TYPE_CHECKING:
    from xdlc.ir.data import Array, TensorData


def _types(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Each element of the inputs and outputs is touched a few times, by numpy.
_LINEAR = _types(
    """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh BatchNormalization BitShift BitwiseAnd
    BitwiseNot BitwiseOr BitwiseXor BlackmanWindow CastLike Ceil Celu CenterCropPad Clip Compress Concat Cos
    Cosh CumSum DepthToSpace Div DynamicQuantizeLinear Elu Equal Exp Expand EyeLike Floor Gather Gelu
    Greater GreaterOrEqual HammingWindow HannWindow HardSigmoid HardSwish Hardmax IsInf IsNaN
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization Max Mean
    MeanVarianceNormalization Min Mish Mod Mul Neg NonZero Not OneHot Or PRelu Pad Pow QuantizeLinear Range
    RMSNormalization Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum ReduceSumSquare Relu Round Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice
    Softmax Softplus Softsign SpaceToDepth Split Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Tile TopK Trilu
    Unique Where Xor
    """
)
# Each element takes a step of Python.
_SLOW = _types(
    "CumProd Erf GatherElements GatherND MelWeightMatrix ReverseSequence Scatter ScatterElements ScatterND"
)
_SLOW_STEP = 1 << 6  # bytes that numpy works through meanwhile
_PRODUCTS = _types("Gemm MatMul MatMulInteger")
_PRODUCT_STEPS = 8  # multiplications for which numpy needs as long as for a byte
# The size of a result depends on the values, but is at most so many 64-bit integers for each element.
_BY_VALUES = {"NonZero": 64, "Unique": 4, "Compress": 1}
_FOLDED = _LINEAR | _SLOW | _PRODUCTS
_SHAPE_LIKE = 1 << 10  # elements of an input whose values may decide a shape
_START = 1 << 26  # bytes of work that any model may ask for
_PER_BYTE = 4  # bytes of work for each byte of a model


class Folding:
    """Evaluates the nodes of one model, within its budget.

    Args:
        nbytes: Size of the model, its weights included.
    """

    def __init__(self, nbytes: int) -> None:
        self._left = _START + _PER_BYTE * nbytes

    def evaluate(
        self, node: Any, opset: int, inputs: Sequence[TensorData | None], where: str
    ) -> list[Array | None] | None:
        """Return the outputs of a node, computed by ONNX's reference implementation.

        Args:
            node: ``NodeProto`` of the default domain.
            opset: Version of the default domain.
            inputs: Elements by position; None for an input left out.
            where: Place for errors.

        Returns:
            The outputs, or None if that is too much work, or nobody knows how much it is, or they are
            no tensors of numbers.

        Raises:
            ModelError: If the inputs do not fit the operator.
        """
        from onnx.reference import ReferenceEvaluator

        given = {name: data for name, data in zip(node.input, inputs, strict=True) if data is not None}
        if sum(data.nbytes for data in given.values()) > self._left:
            return None
        try:
            model = _model(node, opset, given)
            work = _work(node.op_type, list(given.values()), _result_sizes(model, given))
            if work is None or work > self._left:
                return None
            self._left -= work
            arrays = {name: data.numpy() for name, data in given.items()}
            results = ReferenceEvaluator(model).run(None, arrays)
        except Exception as error:  # the evaluator raises whatever numpy does
            raise ModelError(
                f"its inputs are constant, but it cannot be evaluated: {error}",
                where=where,
                fix="check the model with onnx.checker and onnxruntime",
            ) from error
        if any(not hasattr(array, "dtype") or array.dtype.hasobject for array in results):
            return None  # sequences, optionals and strings
        found = iter(results)
        return [next(found) if name else None for name in node.output]


def foldable(node: Any) -> bool:
    """Return whether a node of known inputs is to be evaluated now."""
    if node.domain == MICROSOFT:
        return bool(node.op_type == "QuantizeLinear")  # ONNX's with more types
    return node.domain in ("", "ai.onnx") and node.op_type in _FOLDED


def _model(node: Any, opset: int, given: Mapping[str, TensorData]) -> Any:
    """Return a model of a node alone."""
    import onnx

    kept = onnx.NodeProto()
    kept.CopyFrom(node)
    if node.domain == MICROSOFT:
        kept.domain, opset = "", HOST_OPSET
    graph = onnx.helper.make_graph(
        [kept],
        "fold",
        [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(data.dtype), data.shape
            )
            for name, data in given.items()
        ],
        [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name],
        [
            onnx.numpy_helper.from_array(data.numpy(), name)
            for name, data in given.items()
            if math.prod(data.shape) <= _SHAPE_LIKE
        ],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])


def _result_sizes(model: Any, given: Mapping[str, TensorData]) -> list[int] | None:
    """Return the bytes of each output of a model of one node; None if it is not known before it runs."""
    import onnx

    values = _BY_VALUES.get(model.graph.node[0].op_type)
    if values is not None:
        return [8 * values * sum(math.prod(data.shape) for data in given.values())]
    sizes = []
    for output in onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output:
        kind = output.type.tensor_type
        if not kind.elem_type or any(not dim.HasField("dim_value") for dim in kind.shape.dim):
            return None
        itemsize = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize
        sizes.append(itemsize * math.prod(dim.dim_value for dim in kind.shape.dim))
    return sizes


def _work(type: str, inputs: Sequence[TensorData], results: list[int] | None) -> int | None:
    """Return what evaluating an operator costs, in bytes that numpy works through; None if unknown."""
    if results is None or min(results, default=0) < 0:
        return None
    touched = sum(data.nbytes for data in inputs) + sum(results)
    if type in _SLOW:
        return touched * _SLOW_STEP
    if type in _PRODUCTS:
        # a @ b has rows * inner * columns steps, the root of the product of the three sizes
        sizes = (*(max(math.prod(data.shape), 1) for data in inputs[:2]), *results)
        return touched + math.isqrt(math.prod(sizes)) // _PRODUCT_STEPS
    return touched
