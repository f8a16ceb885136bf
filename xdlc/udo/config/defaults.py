"""Default values: JSON on the one side, the text of OpDef XML on the other."""

from __future__ import annotations

from xdlc.ir.dtype import DType
from xdlc.udo.config.fields import kind_of
from xdlc.udo.config.json_text import Node


def text_of(node: Node, dtype: DType | None, names: tuple[str, ...], is_tensor: bool) -> str:
    """Return a default as OpDef XML writes it.

    Args:
        node: The value.
        dtype: Type of the parameter; None where each core has its own.
        names: Names of its values, if it is an enumeration.
        is_tensor: Whether it is a tensor.

    Raises:
        ValueError: If the value is of another kind than the type; says what it should be.

    Example:
        >>> from xdlc.ir.dtype import BOOL8, FLOAT32
        >>> text_of(Node((Node(1, 1, "1"), Node(0.5, 1, "0.5")), 1), FLOAT32, (), True)
        '[1, 0.5]'
        >>> text_of(Node(True, 1), BOOL8, (), False)
        '1'
        >>> text_of(Node("1", 1), FLOAT32, (), False)
        Traceback (most recent call last):
            ...
        ValueError: a number
    """
    if is_tensor and not isinstance(node.value, tuple):
        raise ValueError("an array like [[1, 2], [3, 4]]")
    if isinstance(node.value, tuple):
        if not is_tensor:
            raise ValueError("one value, as the parameter is a scalar")
        return f"[{', '.join(_element(item, dtype) for item in node.value)}]"
    if names:
        if isinstance(node.value, str):
            return node.value
        raise ValueError("a name of its enumeration")
    return _single(node, dtype)


def _element(node: Node, dtype: DType | None) -> str:
    if isinstance(node.value, tuple):
        return f"[{', '.join(_element(item, dtype) for item in node.value)}]"
    return _single(node, dtype)


def _single(node: Node, dtype: DType | None) -> str:
    value = node.value
    kind = dtype.kind if dtype is not None else ""
    if kind == "string":
        if isinstance(value, str):
            return value
        raise ValueError("a string")
    if kind == "bool":
        if isinstance(value, bool) or node.text in ("0", "1"):
            return "1" if value else "0"
        raise ValueError("true or false")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a number")
    if isinstance(value, float) and kind in ("int", "uint"):
        raise ValueError("a whole number")
    return node.text


def wrong_default(what: str, expected: str, node: Node) -> tuple[str, str]:
    """Return problem and fix for a default that is of the wrong kind.

    Example:
        >>> wrong_default("scalar_param 'axis'", "a number", Node("1", 1))[0]
        "default of scalar_param 'axis' has to be a number, found the string '1'"
    """
    fix = "write it without quotes" if isinstance(node.value, str) else f"write {expected}"
    return f"default of {what} has to be {expected}, found {kind_of(node)}", fix
