"""Functions of TensorFlow that functional models of Keras 2 call, as operations of Keras 3."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdlc.converter.keras.handling import handler
from xdlc.converter.keras.layers import EXPORT
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value

_SAME = """
add subtract multiply divide maximum minimum equal greater less
exp log sqrt rsqrt square sign sin cos tan sinh cosh tanh floor ceil round reciprocal erf
relu relu6 sigmoid softplus softsign selu silu log1p expm1
"""
"""Functions that are called the same in Keras 3, with a capital letter."""
_BINARY = {
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
    **{name: name.capitalize() for name in _SAME.split()[:9]},
}
_UNARY = {
    "abs": "Absolute",
    "negative": "Negative",
    "neg": "Negative",
    "logical_not": "LogicalNot",
    "stop_gradient": "StopGradient",
    "identity": "StopGradient",
    "zeros_like": "ZerosLike",
    "ones_like": "OnesLike",
    "swish": "Silu",
    **{name: name.capitalize() for name in _SAME.split()[9:]},
}
_REDUCTIONS = ("mean", "sum", "max", "min", "prod", "any", "all", "logsumexp")
_OTHERS = {
    **{f"reduce_{name}": f"{name.capitalize()} input_tensor=x" for name in _REDUCTIONS},
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
    "argmax": "Argmax input=x",
    "argmin": "Argmin input=x",
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
_FIRST = {"Concatenate": "xs", "Where": "condition", "Resize": "images"}
_PLAIN = ("name", "keep_dims", "antialias", "preserve_aspect_ratio")


@handler("TFOpLambda", domain="tf")
def function(node: Node, g: Operators) -> Value | list[Value]:
    """Apply a function of TensorFlow by its name."""
    path = str(node.attr("function"))
    name = path.rpartition(".")[2]
    renames: dict[str, str] = {}
    if name in _BINARY:
        type, first, renames = _BINARY[name], "x1", {"x": "x1", "y": "x2"}
    elif name in _UNARY:
        type, first = _UNARY[name], "x"
    elif name in _OTHERS:
        type, *pairs = _OTHERS[name].split()
        renames = dict(pair.split("=") for pair in pairs)
        first = "x1" if name == "matmul" else _FIRST.get(type, "x")
    else:
        raise node.problem(f"function tf.{path}", EXPORT)
    given = {renames.get(key, key): value for key, value in (node.attr("kwargs") or {}).items()}
    given = {key: value for key, value in given.items() if value is not None and value is not False}
    if name == "split" and type == "Split" and isinstance(given.get("indices_or_sections"), list):
        given["indices_or_sections"] = _positions(given["indices_or_sections"])
    if name == "pad":
        given["mode"] = str(given.get("mode", "constant")).lower()
    args = node.attr("args") or []
    given |= {first: args[0]} if args else {}
    return _applied(node, g, type, {key: value for key, value in given.items() if key not in _PLAIN})


def _positions(sizes: list[Any]) -> list[int]:
    """Return where parts of given sizes end, without the last."""
    return [sum(sizes[: place + 1]) for place in range(len(sizes) - 1)]


def _applied(node: Node, g: Operators, type: str, given: dict[str, Any]) -> Value | list[Value]:
    """Return the outputs of an operation of Keras 3, which reads all of its arguments."""
    found = handler.find("ops", type)
    if found is None:
        raise node.problem(f"operation {type}", EXPORT)
    inner = replace(
        node, type=type, domain="ops", attributes={"args": [], "kwargs": given, **given}, read=set()
    )
    results = found.function(inner, g)
    inner.check_read(found.ignores | {_FIRST.get(type, "x"), "x1", "x2", "dtype"})
    return results  # type: ignore[return-value]


@handler("SlicingOpLambda", domain="tf", ignores=("function",))
def slicing(node: Node, g: Operators) -> Value | list[Value]:
    """Take a part by slices, indices and new axes."""
    args, kwargs = node.attr("args") or [], node.attr("kwargs") or {}
    spec = kwargs.get("slice_spec")
    entries = spec if type(spec) is list else [spec]
    key = [
        slice(each.get("start"), each.get("stop"), each.get("step")) if isinstance(each, dict) else each
        for each in entries
    ]
    return _applied(node, g, "GetItem", {"x": args[0] if args else kwargs.get("tensor"), "key": key})
