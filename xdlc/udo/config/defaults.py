"""Default values: JSON on the one side, the text of OpDef XML on the other."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.ir.dtype import DType
from xdlc.udo.config.fields import kind_of
from xdlc.udo.config.json_text import Node

WORDS = ("inf", "+inf", "-inf", "nan")
"""What JSON has no numbers for: strings, as OpDef XML writes them."""

_EXPECTED = {"string": "a string", "bool": "true or false", "name": "a name of its enumeration"}


def text_of(node: Node, dtypes: Sequence[DType], names: tuple[str, ...], is_tensor: bool) -> str:
    """Return a default as OpDef XML writes it.

    Args:
        node: The value.
        dtypes: Types that the parameter may have; none if that is not known.
        names: Names of its values, if it is an enumeration.
        is_tensor: Whether it is a tensor.

    Raises:
        ValueError: If the value is of another kind than the types; says what it should be.

    Example:
        >>> from xdlc.ir.dtype import BOOL8, FLOAT32
        >>> text_of(Node((Node(1, 1, "1"), Node(0.5, 1, "0.5")), 1), [FLOAT32], (), True)
        '[1, 0.5]'
        >>> text_of(Node(True, 1), [FLOAT32, BOOL8], (), False)
        '1'
        >>> text_of(Node((Node("-inf", 1), Node(0, 1, "0")), 1), [FLOAT32], (), True)
        '[-inf, 0]'
        >>> text_of(Node("1", 1), [FLOAT32], (), False)
        Traceback (most recent call last):
            ...
        ValueError: a number
    """
    if is_tensor and not isinstance(node.value, tuple):
        raise ValueError("an array like [[1, 2], [3, 4]]")
    if isinstance(node.value, tuple) and not is_tensor:
        raise ValueError("one value, as the parameter is a scalar")
    reasons: list[ValueError] = []
    for kind in dict.fromkeys(["name"] if names else [dtype.kind for dtype in dtypes] or [""]):
        try:
            return _element(node, kind)
        except ValueError as reason:
            reasons.append(reason)
    raise reasons[0]


def _element(node: Node, kind: str) -> str:
    if isinstance(node.value, tuple):
        return f"[{', '.join(_element(item, kind) for item in node.value)}]"
    value = node.value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in ("string", "name") and isinstance(value, str):
        return value
    if kind == "float" and value in WORDS:
        return str(value)
    if kind == "bool" and (isinstance(value, bool) or node.text in ("0", "1")):
        return "1" if value else "0"
    if kind == "name" and isinstance(value, int) and is_number:
        return node.text
    if kind in ("int", "uint") and isinstance(value, float):
        raise ValueError("a whole number")
    if kind not in _EXPECTED and is_number:
        return node.text
    raise ValueError(_EXPECTED.get(kind, "a number"))


def wrong_default(what: str, expected: str, node: Node) -> tuple[str, str]:
    """Return problem and fix for a default that is of the wrong kind.

    Example:
        >>> wrong_default("scalar_param 'axis'", "a number", Node("1", 1))[0]
        "default of scalar_param 'axis' has to be a number, found the string '1'"
    """
    fix = "write it without quotes" if isinstance(node.value, str) else f"write {expected}"
    return f"default of {what} has to be {expected}, found {kind_of(node)}", fix
