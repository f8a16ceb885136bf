"""Evaluation of nodes whose inputs are all known.

onnxruntime evaluates, as it would the whole model, and ONNX's reference implementation where that has no
kernel for the types.  numpy computes what is frequent and exact.

A file may come from anyone, and a few bytes of it can request terabytes or for years.  So only operators
are evaluated whose work follows from the size of their inputs and outputs, that size is known before
they run, and a model has a budget of such work, in proportion to its own size.  What is not evaluated
stays an op of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdlc.converter.operators.messages import as_proto
from xdlc.converter.operators.numpy_folding import evaluation
from xdlc.converter.operators.protobuf import numpy_dtype
from xdlc.converter.operators.registry import MICROSOFT, Node
from xdlc.errors import ModelError
from xdlc.runtime.host_kernels import HOST_OPSET
from xdlc.runtime.onnx_evaluator import RefusedError, alone, evaluate, infer_shapes

if TYPE_CHECKING:
    from xdlc.ir.data import Array, TensorData


def _types(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Each element of the inputs and outputs is touched a few times.
_LINEAR = _types(
    """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh BatchNormalization BitShift BitwiseAnd
    BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Ceil Celu CenterCropPad Clip Compress Concat Cos
    Cosh CumSum DepthToSpace Div DynamicQuantizeLinear Elu Equal Exp EyeLike Floor Gather Gelu
    Greater GreaterOrEqual HammingWindow HannWindow HardSigmoid HardSwish Hardmax IsInf IsNaN
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization Max Mean
    MeanVarianceNormalization Min Mish Mod Mul Neg NonZero Not OneHot Or PRelu Pad Pow QuantizeLinear Range
    RMSNormalization Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum ReduceSumSquare Relu Round Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice
    Softmax Softplus Softsign SpaceToDepth Split Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu TopK Trilu
    Unique Where Xor
    """
)
# The same, but in ONNX's reference implementation each element takes a step of Python.
_SLOW = _types(
    "CumProd Erf GatherElements GatherND MelWeightMatrix ReverseSequence Scatter ScatterElements ScatterND"
)
_SLOW_STEP = 1 << 6  # bytes that numpy works through meanwhile
_PRODUCTS = _types("Gemm MatMul MatMulInteger")
_PRODUCT_STEPS = 8  # multiplications for which numpy needs as long as for a byte
_VARIADIC = _types("Concat Max Mean Min Sum")
# The size of a result depends on the values, but is at most so many 64-bit integers for each element.
_BY_VALUES = {"NonZero": 64, "Unique": 4, "Compress": 1}
_FLAGS = _types(
    """
    exclusive fmod keepdims largest noop_with_empty_axes reverse select_last_index sorted transA transB upper
    """
)
_FOLDED = _LINEAR | _SLOW | _PRODUCTS
_START = 1 << 26  # bytes of work that any model may request
_PER_BYTE = 4  # bytes of work for each byte of a model


class Folding:
    """Evaluates the nodes of one model, within its budget.

    Args:
        nbytes: Returns the size of the model, its weights included.
    """

    def __init__(self, nbytes: Callable[[], int]) -> None:
        self._nbytes = nbytes
        self._used = 0

    @property
    def _left(self) -> int:
        return _START + _PER_BYTE * self._nbytes() - self._used

    def evaluate(self, folded: Node) -> list[Array | None] | None:
        """Return the outputs of a node, by onnxruntime or else ONNX's reference.

        Args:
            folded: A node of the default domain, whose inputs are all static.

        Returns:
            The outputs, or None if the node is not valid, that is too much work, or nobody knows how much
            it is, or they are no tensors of numbers, or neither has an implementation for the types.

        Raises:
            ModelError: If the inputs do not fit the operator.
        """
        inputs = [None if value is None else value.tensor.data for value in folded.inputs]
        simple = evaluation(folded, inputs)
        if simple is not None:
            nbytes, compute = simple
            nbytes += sum(data.nbytes for data in inputs if data is not None)
            if nbytes > self._left:
                return None
            self._used += nbytes
            return [compute()]
        node = as_proto(folded)
        given = {name: data for name, data in zip(node.input, inputs, strict=True) if data is not None}
        if not _is_sound(node, inputs) or sum(data.nbytes for data in given.values()) > self._left:
            return None
        try:
            results = self._computed(node, folded.opset, given)
        except RefusedError as error:
            raise ModelError(
                f"its inputs are constant, but it cannot be evaluated: {error}",
                fix="correct the attributes or constant inputs of this node: onnxruntime refuses them, too",
            ) from error
        if results is None:
            return None
        found = iter(results)
        return [next(found) if name else None for name in node.output]

    def _computed(self, node: Any, opset: int, constants: Mapping[str, TensorData]) -> list[Array] | None:
        operands = [constants[name] for name in node.input if name]
        kept = type(node)()
        kept.CopyFrom(node)
        if node.domain == MICROSOFT:
            kept.domain, opset = "", HOST_OPSET
        model = alone(
            kept, opset, {name: (data.dtype, data.shape) for name, data in constants.items()}, constants
        )
        work = _work(node.op_type, operands, _result_sizes(model, constants))
        if work is None or work > self._left:
            return None
        self._used += work
        is_empty = any(0 in data.shape for data in operands)  # onnxruntime's Unique ends the process then
        results = None if is_empty else evaluate(model, constants, work)
        if results is not None:
            return results
        more = work * _SLOW_STEP if node.op_type in _SLOW else 0
        if more > self._left:
            return None
        self._used += more
        return evaluate(model, constants, work + more, by_reference=True)


def foldable(node: Node) -> bool:
    """Return whether a node of known inputs is to be evaluated now."""
    if node.domain == MICROSOFT:
        return node.type == "QuantizeLinear"  # ONNX's with more types
    return not node.domain and node.type in _FOLDED


def _is_sound(node: Any, inputs: Sequence[TensorData | None]) -> bool:
    """Return whether a node keeps the rules that onnxruntime does not check."""
    if not inputs or inputs[0] is None:
        return not inputs
    numbers = {attribute.name: attribute.i for attribute in node.attribute}
    rank = len(inputs[0].shape)
    return (
        all(numbers[name] in (0, 1) for name in _FLAGS.intersection(numbers))
        and -rank - 1 <= numbers.get("axis", 0) <= rank
        and 0 <= numbers.get("batch_dims", 0) <= rank
        and numbers.get("num_outputs", len(node.output)) == len(node.output)
        and not (node.op_type in _VARIADIC and None in inputs)
    )


def _result_sizes(model: Any, constants: Mapping[str, TensorData]) -> list[int] | None:
    """Return the bytes of each output of a one-node model, or None if unknown."""
    import numpy

    node = model.graph.node[0]
    values = _BY_VALUES.get(node.op_type)
    if values is not None:
        return [8 * values * sum(math.prod(data.shape) for data in constants.values())]
    if node.op_type == "Range":  # inference counts in the type of the numbers, and overflows
        numbers = [constants[name].numpy().reshape(-1) for name in node.input]
        if any(array.size != 1 or not numpy.isfinite(array).all() for array in numbers) or not numbers[-1][0]:
            return None
        start, limit, delta = (array.item() for array in numbers)
        return [numbers[0].itemsize * max(0, math.ceil((limit - start) / delta))]
    sizes = []
    for output in infer_shapes(model).graph.output:
        kind = output.type.tensor_type
        if not kind.elem_type or any(not dim.HasField("dim_value") for dim in kind.shape.dim):
            return None
        count = math.prod(dim.dim_value for dim in kind.shape.dim)
        sizes.append(numpy_dtype(kind.elem_type).itemsize * count)
    return sizes


def _work(type: str, inputs: Sequence[TensorData], results: list[int] | None) -> int | None:
    """Return the cost of evaluating an operator in bytes, or None if unknown."""
    if results is None or min(results, default=0) < 0:
        return None
    touched = sum(data.nbytes for data in inputs) + sum(results)
    if type in _PRODUCTS:
        # a @ b has rows * inner * columns steps, the root of the product of the three sizes
        sizes = (*(max(math.prod(data.shape), 1) for data in inputs[:2]), *results)
        return touched + math.isqrt(math.prod(sizes)) // _PRODUCT_STEPS
    return touched
