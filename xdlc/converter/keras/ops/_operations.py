"""Operations and TensorFlow functions that functional models call, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from xdlc.converter.functions import elementwise
from xdlc.converter.functions.shapes import axis_of
from xdlc.converter.keras.layers import EXPORT
from xdlc.converter.keras.registry import DTYPES, Operand, as_float, const, handler
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, from_numpy


class Arguments:
    """Arguments of an operation.

    Args:
        names: Names of its parameters in order, separated by blanks.
    """

    def __init__(self, node: Node, g: Operators, names: str) -> None:
        self.node, self.g = node, g
        args = node.attr("args") or []
        if len(args) > len(names.split()):
            raise node.problem(f"the operation has {len(args)} positional arguments, which is too many")
        self._given = {**dict(zip(names.split(), args, strict=False)), **(node.attr("kwargs") or {})}

    def option(self, name: str, default: Any = None) -> Any:
        """Return an argument, or an option of the operation itself, that is not a tensor.

        Raises:
            UnsupportedOp: If it is a tensor that the model computes.
        """
        own = self.node.attr(name, default)
        given = self._given.get(name, own)
        if any(isinstance(each, Operand) for each in _leaves(given)):
            raise self.node.problem(f"argument {name} is computed, but must be constant")
        return default if given is None else given

    def integers(self, name: str, default: Any = None) -> list[int]:
        """Return an argument that is an integer or a list of integers as a list.

        Raises:
            ModelError: If it is something else.
        """
        given = self.option(name, default)
        given = [given] if type(given) is int else given
        if not isinstance(given, list) or not all(type(each) is int for each in given):
            raise self.node.invalid(f"argument {name} is {given!r:.40}, not an integer")
        return given

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an argument that is a single integer.

        Raises:
            ModelError: If it is something else.
        """
        given = self.integers(name, default)
        if len(given) != 1:
            raise self.node.invalid(f"argument {name} is {given!r:.40}, not an integer")
        return given[0]

    def axes(self, x: Value, default: Any = None) -> list[int]:
        """Return the axes of an operation on a value in order; None is all of them."""
        listed = range(x.rank) if self.option("axis", default) is None else self.integers("axis", default)
        return sorted(axis_of(axis, x.rank) for axis in listed)

    def along_one(self) -> tuple[Value, int]:
        """Return x and an operation's axis; without an axis, x flattened."""
        x = self.value()
        if self.option("axis") is None:
            return self.g("Reshape", [x, [-1]]), 0
        return x, axis_of(self.integer("axis"), x.rank)

    def has(self, name: str) -> bool:
        """Return whether an argument is present."""
        return self._given.get(name) is not None

    def value(self, name: str = "x", like: Value | None = None) -> Value:
        """Return an argument as a value; a number has the type of ``like`` if it fits.

        Raises:
            ModelError: If it is missing or no number.
        """
        argument = self._given.get(name)
        if isinstance(argument, Operand):
            return self.node.required(argument.place)
        if any(isinstance(leaf, Operand) for leaf in _leaves(argument)):
            raise self.node.problem(f"argument {name} mixes tensors and numbers")
        try:
            array = np.asarray(argument)
        except ValueError:
            array = np.asarray(None)
        if array.dtype.kind not in "biuf":
            raise self.node.invalid(f"argument {name} has the unsupported value {argument!r:.60}")
        if not isinstance(argument, np.ndarray):
            kind = like.dtype.numpy if like is not None else np.dtype(np.float32)
            fits = array.dtype.kind == "b" or not (array.dtype.kind == "f" and kind.kind != "f")
            array = array.astype(kind if fits else np.float32)
        return self.g.builder.const(array.astype(np.float32) if array.dtype == np.float64 else array)

    def real(self, name: str = "x") -> Value:
        """Return an argument as a value of float32."""
        return as_float(self.g, self.value(name))

    def values(self, name: str) -> list[Value]:
        """Return a list of tensors in one type: float32 if theirs differ."""
        argument = self._given.get(name)
        listed = argument if type(argument) is list else [argument]
        like = next((self.node.required(item.place) for item in listed if isinstance(item, Operand)), None)
        kind = like.dtype.numpy if like is not None else np.float32
        operands = [
            self.node.required(item.place)
            if isinstance(item, Operand)
            else self.g.builder.const(np.asarray(item, kind))
            for item in listed
        ]
        if any(value.dtype is not operands[0].dtype for value in operands):
            return [as_float(self.g, value) for value in operands]
        return operands

    def pair(self) -> tuple[Value, Value]:
        """Return x1 and x2 in one type: float32 if the types differ or one is fractional."""
        leading = isinstance(self._given.get("x1"), Operand)
        one = self.value("x1" if leading else "x2")
        other = self.value("x2" if leading else "x1", one)
        x, y = (one, other) if leading else (other, one)
        if x.dtype is y.dtype:
            return x, y
        if not x.dtype.is_float and not y.dtype.is_float:
            wide = from_numpy(np.promote_types(x.dtype.numpy, y.dtype.numpy))
            return self.g.builder.cast(x, wide), self.g.builder.cast(y, wide)
        return as_float(self.g, x), as_float(self.g, y)


def _leaves(argument: Any) -> list[Any]:
    if type(argument) is list:
        return [leaf for item in argument for leaf in _leaves(item)]
    if isinstance(argument, slice):
        return [argument.start, argument.stop, argument.step]
    return [argument]


def truth(g: Operators, x: Value) -> Value:
    """Return a value as bools: numbers other than 0 are true."""
    return x if x.dtype is BOOL8 else elementwise.not_equal(g, x, const(g, 0, x))


def converted(node: Node, g: Operators, x: Value, name: Any) -> Value:
    """Return a value of the type of a name; all floats are float32.

    Raises:
        UnsupportedOp: If there is no such type.
    """
    dtype = DTYPES.get(str(name))
    if dtype is None:
        raise node.problem(f"xdlc does not support the type {name!r:.30}")
    return truth(g, x) if dtype is BOOL8 else elementwise.converted(g, x, dtype)


Results = Value | list[Value]
Table = Mapping[str, tuple[str, Callable[[Arguments], Results]]]
_UNUSED = ("sparse", "ragged", "args", "kwargs", "sorted", "num", "fill_mode", "fill_value")


PARAMETERS: dict[str, str] = {}
"""Names of the parameters of each operation, in order."""


def operations(table: Table) -> None:
    """Register operations: the names of the parameters of each, and its function."""
    PARAMETERS.update((type, names) for type, (names, _) in table.items())

    @handler(*table, domain="ops", ignores=_UNUSED)
    def operation(node: Node, g: Operators) -> Results:
        names, function = table[node.type]
        given = Arguments(node, g, names)
        made, name = function(given), given.option("dtype")
        return made if name is None or isinstance(made, list) else converted(node, g, made, name)


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
        raise node.problem(f"xdlc does not support the function tf.{path}", EXPORT)
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
    """Return split positions from the sizes of parts."""
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
    """Slice by slices, indices and new axes."""
    kwargs = node.attr("kwargs") or {}
    spec = kwargs.get("slice_spec")
    key = [
        slice(each.get("start"), each.get("stop"), each.get("step")) if isinstance(each, dict) else each
        for each in (spec if type(spec) is list else [spec])
    ]
    tensor = {"x": kwargs["tensor"]} if "tensor" in kwargs else {}
    return _applied(node, g, "GetItem", {**tensor, "key": key})
