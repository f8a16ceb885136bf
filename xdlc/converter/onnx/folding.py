"""Evaluates nodes whose inputs are all known, so that importers only see real computation."""

from __future__ import annotations

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
LIMIT = 1 << 30  # bytes of one result


def foldable(node: Any) -> bool:
    """Return whether a node of known inputs is to be evaluated now."""
    return not node.domain.replace("ai.onnx", "") and node.op_type not in _IMPURE | _VIEWS


def evaluate(node: Any, opset: int, inputs: list[Array | None], where: str) -> list[Array | None]:
    """Return the outputs of a node, computed by ONNX's reference implementation.

    Args:
        node: ``NodeProto`` of the default domain.
        opset: Version of the default domain.
        inputs: Arrays by position; None for an input left out.
        where: Place for errors.

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
        [_any(name) for name in given],
        [_any(name) for name in node.output if name],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        results = ReferenceEvaluator(model).run(None, given)
    except Exception as error:  # the evaluator raises whatever numpy does
        raise ModelError(
            f"its inputs are constant, but it cannot be evaluated: {error}",
            where=where,
            fix="check the model with onnx.checker and onnxruntime",
        ) from error
    found = iter(results)
    return [next(found) if name else None for name in node.output]


def _any(name: str) -> Any:
    import onnx

    return onnx.helper.make_value_info(name, onnx.TypeProto())
