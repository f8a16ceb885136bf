"""Default values: JSON on the one side, the text of OpDef XML on the other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdlc.ir.dtype import DType
from xdlc.udo.config.fields import kind_of
from xdlc.udo.config.json_text import Node

_NOT_FINITE = re.compile(r"[+-]?inf(inity)?|nan", re.IGNORECASE)
"""What JSON has no numbers for: strings, as OpDef XML writes them."""
_UNQUOTED = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false")

_EXPECTED = {"string": "a string", "bool": "true or false", "name": "a name of its enumeration"}


class WrongDefaultError(Exception):
    """A default, or an element of it, that is of another kind than the types.

    Attributes:
        expected: What it should be.
        node: What it is.
    """

    def __init__(self, expected: str, node: Node) -> None:
        super().__init__(expected)
        self.expected = expected
        self.node = node


def default_text(
    node: Node,
    dtypes: Sequence[DType],
    names: tuple[str, ...] = (),
    *,
    is_scalar: bool = False,
    is_tensor: bool = False,
) -> str:
    """Return a default as OpDef XML writes it.

    Args:
        node: The value.
        dtypes: Types that the parameter may have; none if that is not known.
        names: Names of its values, if it is an enumeration.
        is_scalar: Whether it has to be one value.
        is_tensor: Whether it has to be a tensor.

    Raises:
        WrongDefaultError: If the value is of another kind than the types.

    Example:
        >>> from xdlc.ir.dtype import BOOL8, FLOAT32
        >>> default_text(Node((Node(1, 1, "1"), Node(0.5, 1, "0.5")), 1), [FLOAT32], is_tensor=True)
        '[1, 0.5]'
        >>> default_text(Node(True, 1), [FLOAT32, BOOL8], is_scalar=True)
        '1'
        >>> default_text(Node((Node("-inf", 1), Node(0, 1, "0")), 1), [FLOAT32], is_tensor=True)
        '[-inf, 0]'
        >>> default_text(Node("1", 1), [FLOAT32], is_scalar=True)
        Traceback (most recent call last):
            ...
        xdlc.udo.config.defaults.WrongDefaultError: a number
    """
    if is_tensor and not isinstance(node.value, tuple):
        raise WrongDefaultError("an array like [[1, 2], [3, 4]]", node)
    if isinstance(node.value, tuple) and is_scalar:
        raise WrongDefaultError("one value, as the parameter is a scalar", node)
    reasons: list[WrongDefaultError] = []
    for kind in dict.fromkeys(["name"] if names else [dtype.kind for dtype in dtypes] or [""]):
        try:
            return _element(node, kind)
        except WrongDefaultError as reason:
            reasons.append(reason)
    raise reasons[0]


def _element(node: Node, kind: str) -> str:
    if isinstance(node.value, tuple):
        return f"[{', '.join(_element(item, kind) for item in node.value)}]"
    value = node.value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in ("string", "name") and isinstance(value, str):
        return value
    if kind == "float" and isinstance(value, str) and _NOT_FINITE.fullmatch(value):
        return value
    if kind == "bool" and (isinstance(value, bool) or node.text in ("0", "1")):
        return "1" if value else "0"
    if kind == "name" and isinstance(value, int) and is_number:
        return node.text
    if kind in ("int", "uint") and isinstance(value, float):
        raise WrongDefaultError("a whole number", node)
    if kind not in _EXPECTED and is_number:
        return node.text
    raise WrongDefaultError(_EXPECTED.get(kind, "a number"), node)


def wrong_default(what: str, default: Node, wrong: WrongDefaultError) -> tuple[str, str]:
    """Return problem and fix for a default that is of the wrong kind.

    Example:
        >>> node = Node("1", 1)
        >>> wrong_default("scalar_param 'axis'", node, WrongDefaultError("a number", node))
        ("default of scalar_param 'axis' has to be a number, found the string '1'", 'write it without quotes')
    """
    value = wrong.node.value
    quoted = isinstance(value, str) and _UNQUOTED.fullmatch(value) is not None
    subject = f"default of {what}" if wrong.node is default else f"each element of the default of {what}"
    fix = "write it without quotes" if quoted else f"write {wrong.expected}"
    return f"{subject} has to be {wrong.expected}, found {kind_of(wrong.node)}", fix
