"""Evaluates nodes whose inputs are all known, so that importers only see real computation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from xdlc.errors import ModelError

if TYPE_CHECKING:
    from xdlc.ir.data import Array

# Results differ from call to call, or depend on more than the inputs.
_IMPURE = frozenset(
    (
        "RandomNormal",
        "RandomUniform",
        "RandomNormalLike",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
        "Dropout",
        "If",
        "Loop",
        "Scan",
    )
)
# The importers of these work on known values without computing anything.
_VIEWS = frozenset(
    (
        "Identity",
        "Reshape",
        "Transpose",
        "Unsqueeze",
        "Squeeze",
        "Flatten",
        "Cast",
        "Constant",
        "ConstantOfShape",
        "DequantizeLinear",
    )
)
# Results or inputs are sequences or optionals, which are no arrays.
_SEQUENCES = frozenset(
    (
        "SequenceConstruct",
        "SequenceEmpty",
        "SplitToSequence",
        "Optional",
        "OptionalHasElement",
        "OptionalGetElement",
    )
)
LIMIT = 1 << 28  # bytes of one result
_SHAPE_LIKE = 1 << 10  # elements of an input whose values may decide a shape


def foldable(node: Any) -> bool:
    """Return whether a node of known inputs is to be evaluated now."""
    return (
        node.domain in ("", "ai.onnx")
        and node.op_type not in _IMPURE | _VIEWS | _SEQUENCES
        and not any(attribute.HasField("g") for attribute in node.attribute)
    )


def evaluate(node: Any, opset: int, inputs: list[Array | None], where: str) -> list[Array | None] | None:
    """Return the outputs of a node, computed by ONNX's reference implementation.

    Args:
        node: ``NodeProto`` of the default domain.
        opset: Version of the default domain.
        inputs: Arrays by position; None for an input left out.
        where: Place for errors.

    Returns:
        The outputs, or None if a result is too large to be worked out while converting, or no tensor of
        numbers.

    Raises:
        ModelError: If the inputs do not fit the operator.
    """
    import onnx
    from onnx.reference import ReferenceEvaluator

    given = {
        name: array for name, array in zip(node.input, inputs, strict=False) if name and array is not None
    }
    kept = onnx.NodeProto()
    kept.CopyFrom(node)
    graph = onnx.helper.make_graph(
        [kept],
        "fold",
        [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in given.items()
        ],
        [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name],
        [
            onnx.numpy_helper.from_array(array, name)
            for name, array in given.items()
            if array.size <= _SHAPE_LIKE
        ],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        if _bytes_of_results(model) > LIMIT:
            return None
        results = ReferenceEvaluator(model).run(None, given)
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


def _bytes_of_results(model: Any) -> int:
    """Return how large the outputs of a model will be, as far as shape inference can tell."""
    import onnx

    most = 0
    for output in onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output:
        kind = output.type.tensor_type
        if kind.elem_type:
            size = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize
            most = max(most, size * math.prod(dim.dim_value for dim in kind.shape.dim))
    return most
