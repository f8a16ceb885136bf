"""TensorFlow functions called by Keras 2's functional models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdlc.converter.keras.handling import handler
from xdlc.converter.keras.layers import EXPORT
from xdlc.converter.keras.ops._operations import PARAMETERS
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value

_BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "equal", "greater", "less")
_BINARY_RENAMED = {
    "sub": "Subtract",
    "mul": "Multiply",
    "truediv": "Divide",
    "pow": "Power",
    "floordiv": "FloorDivide",
    "floormod": "Mod",
    "greater_equal": "GreaterEqual",
    "less_equal": "LessEqual",
    "not_equal": "NotEqual",
    "divide_no_nan": "DivideNoNan",
    "atan2": "Arctan2",
    "squared_difference": "SquaredDifference",
    "logical_and": "LogicalAnd",
    "logical_or": "LogicalOr",
}
_UNARY = """
exp log sqrt rsqrt square sign sin cos tan sinh cosh tanh floor ceil round reciprocal erf
relu relu6 sigmoid softplus softsign selu silu log1p expm1
""".split()  # noqa: SIM905 - words
_REDUCTIONS = ("mean", "sum", "max", "min", "prod", "any", "all", "logsumexp")
_FUNCTIONS = {
    **{name: f"{name.capitalize()} x=x1 y=x2" for name in _BINARY},
    **{name: f"{type} x=x1 y=x2" for name, type in _BINARY_RENAMED.items()},
    **{name: name.capitalize() for name in _UNARY},
    **{f"reduce_{name}": f"{name.capitalize()} input_tensor=x" for name in _REDUCTIONS},
    **dict.fromkeys(("negative", "neg"), "Negative"),
    **dict.fromkeys(("stop_gradient", "identity"), "StopGradient"),
    "abs": "Absolute",
    "logical_not": "LogicalNot",
    "zeros_like": "ZerosLike input=x",
    "ones_like": "OnesLike input=x",
    "swish": "Silu features=x",
    "reshape": "Reshape tensor=x shape=newshape",
    "transpose": "Transpose a=x perm=axes",
    "expand_dims": "ExpandDims input=x",
    "squeeze": "Squeeze input=x",
    "concat": "Concatenate values=xs",
    "stack": "Stack values=x",
    "unstack": "Unstack value=x",
    "split": "Split value=x num_or_size_splits=indices_or_sections",
    "tile": "Tile input=x multiples=repeats",
    "clip_by_value": "Clip t=x clip_value_min=x_min clip_value_max=x_max",
    "matmul": "Matmul a=x1 b=x2",
    "cast": "Cast",
    "pad": "Pad tensor=x paddings=pad_width",
    "argmax": "Argmax input=x output_type=dtype",
    "argmin": "Argmin input=x output_type=dtype",
    "cumsum": "Cumsum",
    "reverse": "Flip tensor=x",
    "roll": "Roll input=x",
    "gather": "Take params=x",
    "one_hot": "OneHot indices=x depth=num_classes",
    "softmax": "Softmax logits=x",
    "log_softmax": "LogSoftmax logits=x",
    "leaky_relu": "LeakyRelu features=x alpha=negative_slope",
    "gelu": "Gelu features=x",
    "where": "Where x=x1 y=x2",
    "resize": "Resize method=interpolation",
    "depth_to_space": "DepthToSpace input=x",
    "space_to_depth": "SpaceToDepth input=x",
}
"""Operation of Keras 3, and its names for the parameters that are called otherwise."""


@handler("TFOpLambda", domain="tf")
def function(node: Node, g: Operators) -> Value | list[Value]:
    """Apply a function of TensorFlow by its name."""
    path = str(node.attr("function"))
    name = path.rpartition(".")[2]
    if name not in _FUNCTIONS:
        raise node.problem(f"function tf.{path} is not supported", EXPORT)
    type, *pairs = _FUNCTIONS[name].split()
    renames = dict(pair.split("=") for pair in pairs)
    arguments = {renames.get(key, key): value for key, value in (node.attr("kwargs") or {}).items()}
    arguments = {
        key: item
        for key, item in arguments.items()
        if item is not None and item is not False and key != "name"
    }
    if name == "split" and isinstance(arguments.get("indices_or_sections"), list):
        arguments["indices_or_sections"] = _positions(arguments["indices_or_sections"])
    if name == "pad":
        arguments["mode"] = str(arguments.get("mode", "constant")).lower()
    return _applied(node, g, type, arguments)


def _positions(sizes: list[Any]) -> list[int]:
    """Return the ends of parts of given sizes, but the last."""
    return [sum(sizes[: place + 1]) for place in range(len(sizes) - 1)]


def _applied(node: Node, g: Operators, type: str, given: dict[str, Any]) -> Value | list[Value]:
    """Return the outputs of an operation of Keras 3, which reads all of its arguments."""
    found = handler.all()["ops", type]
    attributes = {"args": node.attr("args") or [], "kwargs": given, **given}
    inner = replace(node, type=type, domain="ops", attributes=attributes, read=set())
    results = found.function(inner, g)
    inner.check_read(found.ignores | {*PARAMETERS[type].split()})
    return results  # type: ignore[return-value]


@handler("SlicingOpLambda", domain="tf", ignores=("function",))
def slicing(node: Node, g: Operators) -> Value | list[Value]:
    """Take a part by slices, indices and new axes."""
    kwargs = node.attr("kwargs") or {}
    spec = kwargs.get("slice_spec")
    key = [
        slice(each.get("start"), each.get("stop"), each.get("step")) if isinstance(each, dict) else each
        for each in (spec if type(spec) is list else [spec])
    ]
    tensor = {"x": kwargs["tensor"]} if "tensor" in kwargs else {}
    return _applied(node, g, "GetItem", {**tensor, "key": key})
