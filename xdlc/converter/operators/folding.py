"""Evaluation of nodes whose inputs are all known, by numpy or onnx.

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

from xdlc.converter.operators.protobuf import as_proto, numpy_dtype
from xdlc.converter.operators.registry import MICROSOFT, Node
from xdlc.errors import ModelError
from xdlc.ir.data import Array
from xdlc.runtime.host_kernels import HOST_OPSET
from xdlc.runtime.onnx_evaluator import RefusedError, alone, evaluate, infer_shapes

if TYPE_CHECKING:
    from xdlc.ir.data import Array, TensorData


_UFUNCS = {
    "Add": "add",
    "Div": "divide",
    "Max": "maximum",
    "Min": "minimum",
    "Mul": "multiply",
    "Neg": "negative",
    "Reciprocal": "reciprocal",
    "Sqrt": "sqrt",
    "Sub": "subtract",
}
"""Functions whose results IEEE 754 defines to the last bit, by operator."""
_TYPES = {*_UFUNCS, "Concat", "Gather", "ReduceProd", "Slice"}
_UNARY = ("Neg", "Reciprocal", "Sqrt")
_OF_INTEGERS = ("Add", "Div", "Mul", "Sub")
_REAL, _WHOLE = ("float32", "float64"), ("int32", "int64")
Evaluation = tuple[int, Callable[[], Array]]


def evaluation(node: Node, inputs: Sequence[TensorData | None]) -> Evaluation | None:
    """Return the bytes that a node makes and a function for it, or None.

    Args:
        node: A node of the default domain.
        inputs: Its inputs; None for an omitted one.
    """
    operands = [data for data in inputs if data is not None]
    if node.type not in _TYPES or len(operands) != len(inputs) or not operands or len(node.outputs) != 1:
        return None
    attributes = dict(node.attributes) if node.load is None else node.load(False)
    if node.type in _UFUNCS:
        return None if attributes else _elementwise(node.type, operands)
    if any(0 in data.shape for data in operands):
        return None
    if node.type == "ReduceProd":
        return _product(attributes, operands)
    if node.type == "Slice":
        return None if attributes or len(operands) < 3 else _slice(operands)
    axis = attributes.pop("axis", 0 if node.type == "Gather" else None)
    rank = len(operands[0].shape)
    if attributes or not isinstance(axis, int) or not -rank <= axis < rank:
        return None
    if node.type == "Concat":
        return _concat(axis, operands)
    return _gather(axis, operands) if len(operands) == 2 else None


def _elementwise(type: str, inputs: Sequence[TensorData]) -> Evaluation | None:
    import numpy

    dtype, names = inputs[0].dtype, _REAL + (_WHOLE if type in _OF_INTEGERS else ())
    if dtype.name not in names or any(data.dtype != dtype for data in inputs):
        return None
    if len(inputs) != (1 if type in _UNARY else 2):
        return None
    try:
        shape = numpy.broadcast_shapes(*(data.shape for data in inputs))
    except ValueError:
        return None
    function = getattr(numpy, _UFUNCS[type])
    if type == "Div" and dtype.name in _WHOLE:
        if not inputs[1].numpy().all():
            return None  # onnxruntime refuses a divisor of 0
        function = _towards_zero

    def compute() -> Array:
        with numpy.errstate(all="ignore"):
            return numpy.asarray(function(*(data.numpy() for data in inputs)))

    return math.prod(shape) * dtype.itemsize, compute


def _towards_zero(dividend: Array, divisor: Array) -> Array:
    import numpy

    down = numpy.floor_divide(dividend, divisor)
    return numpy.asarray(down + (((dividend < 0) != (divisor < 0)) & (down * divisor != dividend)))


def _gather(axis: int, inputs: Sequence[TensorData]) -> Evaluation | None:
    import numpy

    data, positions = inputs
    if positions.dtype.kind != "i":
        return None
    where, size = positions.numpy(), data.shape[axis]
    if where.min() < -size or where.max() >= size:
        return None
    count = math.prod(data.shape) // size * where.size
    return count * data.dtype.itemsize, lambda: numpy.asarray(numpy.take(data.numpy(), where, axis))


def _concat(axis: int, inputs: Sequence[TensorData]) -> Evaluation | None:
    import numpy

    at = axis % len(inputs[0].shape)
    if len({(data.dtype, len(data.shape), data.shape[:at], data.shape[at + 1 :]) for data in inputs}) != 1:
        return None
    return sum(data.nbytes for data in inputs), lambda: numpy.concatenate(
        [data.numpy() for data in inputs], axis
    )


def _slice(inputs: Sequence[TensorData]) -> Evaluation | None:
    data, rank = inputs[0], len(inputs[0].shape)
    if len(inputs) > 5 or any(
        given.dtype.kind != "i" or math.prod(given.shape) > rank for given in inputs[1:]
    ):
        return None
    starts, ends, *rest = (given.numpy().reshape(-1).tolist() for given in inputs[1:])
    axes = rest[0] if rest else list(range(len(starts)))
    steps = rest[1] if len(rest) > 1 else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        return None
    if any(not -rank <= axis < rank for axis in axes) or len({axis % rank for axis in axes}) != len(axes):
        return None
    where = [slice(None)] * rank
    for axis, *bounds in zip(axes, starts, ends, steps, strict=True):
        where[axis] = slice(*bounds)
    return data.nbytes, lambda: data.numpy()[tuple(where)]


def _product(attributes: dict[str, Any], inputs: Sequence[TensorData]) -> Evaluation | None:
    import numpy

    data, dtype = inputs[0], inputs[0].dtype
    rank = len(data.shape)
    given = inputs[1].numpy().reshape(-1)[: rank + 1].tolist() if len(inputs) == 2 else attributes.get("axes")
    axes = given if isinstance(given, list | tuple) else []
    if dtype.name not in _WHOLE or not axes or not all(isinstance(axis, int) for axis in axes):
        return None
    if any(not -rank <= axis < rank for axis in axes) or len({axis % rank for axis in axes}) != len(axes):
        return None
    keeps = bool(attributes.get("keepdims", 1))

    def compute() -> Array:
        return numpy.asarray(numpy.prod(data.numpy(), tuple(axes), dtype, keepdims=keeps))

    return data.nbytes, compute


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
                f"the inputs are constant, but onnxruntime cannot compute the node: {error}",
                fix="correct the attributes or constant inputs of this node",
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
    """Return whether a node follows the rules that onnxruntime does not check."""
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
