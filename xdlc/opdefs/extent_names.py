"""Tells extents that texts of shapes name from inputs and outputs of the same name.

Weights are often called ``w``, as is an extent of a picture.  In ``[n, h, w / 2]`` a number is meant, so
that ``w`` is the extent if a text names one; in ``shape(w)[0]`` and ``w[0]`` it can only be the tensor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from xdlc.opdefs.constraint_parser import Node
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.opdefs.xml_elements import dtype_of

ANY = "_"
_OF_NUMBERS = ("min", "max", "abs", "floor", "ceil")
_OF_AXIS = ("dim", "extent")
_NO_NUMBERS = ("shape", "datatype", "broadcast")


def stated_names(definition: OpDef) -> list[str]:
    """Return the names of extents that the texts of a definition use."""
    return _names(definition, (*definition.inputs, *definition.outputs, *definition.params.values()))


def told_names(definition: OpDef) -> list[str]:
    """Return the names of extents that inputs and parameters tell."""
    return _names(definition, (*definition.inputs, *definition.params.values()))


def _names(definition: OpDef, entries: Iterable[TensorDef]) -> list[str]:
    words = [word for entry in entries for word in entry.shape]
    return [word for word in words if word.isidentifier() and word != ANY and word not in definition.params]


def with_extents(node: Node, names: Collection[str], numeric: bool = True) -> Node:
    """Return an expression in which names of extents are told from names of tensors, as kind ``extent``.

    Args:
        node: The expression.
        names: Names of extents.
        numeric: Whether a number is meant; False for a shape as a whole.

    Example:
        >>> from xdlc.opdefs.constraint_parser import parse
        >>> [part.kind for part in with_extents(parse("w + dim(w, 0)"), ["w"]).parts]
        ['extent', 'call']
    """
    if node.kind == "name":
        return replace(node, kind="extent", value=node.source) if numeric and node.source in names else node
    if node.kind == "index":
        flags: Sequence[bool] = (False, True)
    elif node.kind == "call":
        flags = _flags(str(node.value), len(node.parts))
    else:
        flags = [True] * len(node.parts)
    parts = (with_extents(part, names, flag) for part, flag in zip(node.parts, flags, strict=True))
    return replace(node, parts=tuple(parts))


def _flags(function: str, count: int) -> Sequence[bool]:
    """Return which operands of a function are numbers."""
    if function in _OF_AXIS:
        return [False, True][-count:] + [True] * (count - 2)
    return [function in _OF_NUMBERS] * count


def in_rule(
    node: Node, names: Collection[str], tensors: Collection[str], own: str = "", of: str = ""
) -> tuple[Node, str]:
    """Return a rule with extents told from tensors, and the name that may be either; empty if there is none.

    A side of a comparison is the tensor if it is compared with a shape or a data type, the extent if it is
    compared with extents or the rule is about shapes, and of the rule's own tensor its values.

    Args:
        node: The rule.
        names: Names of extents.
        tensors: Names of inputs and outputs.
        own: Name of the tensor that the rule is about.
        of: Type of the rule.
    """
    if node.kind != "compare":
        told = [in_rule(part, names, tensors, own, of) for part in node.parts]
        return replace(node, parts=tuple(one for one, _ in told)), next(
            (word for _, word in told if word), ""
        )
    parts = []
    for index, part in enumerate(node.parts):
        is_both = part.kind == "name" and part.source in names and part.source in tensors
        beside = [*node.parts[:index], *node.parts[index + 1 :]] if is_both else []
        is_tensor = any(_is_no_number(other, names, tensors) for other in beside)
        is_extent = of == "Shape" or any(_is_extent(other, names, tensors) for other in beside)
        if is_both and not is_tensor and not is_extent:
            is_tensor = of == "Value" and part.source == own
            if not is_tensor:
                return node, part.source
        parts.append(with_extents(part, names, not is_tensor))
    return replace(node, parts=tuple(parts)), ""


def _is_extent(node: Node, names: Collection[str], tensors: Collection[str]) -> bool:
    if node.kind in ("sum", "sign", "set", "range"):
        return any(_is_extent(part, names, tensors) for part in node.parts)
    if node.kind == "index":
        return node.parts[0].kind == "call" and node.parts[0].value == "shape"
    if node.kind == "call":
        return node.value in (*_OF_AXIS, "rank")
    return node.kind == "name" and node.source in names and node.source not in tensors


def _is_no_number(node: Node, names: Collection[str], tensors: Collection[str]) -> bool:
    if node.kind in ("call", "list"):
        return node.kind == "list" or node.value in _NO_NUMBERS
    if node.kind == "set":
        return any(_is_no_number(part, names, tensors) for part in node.parts)
    if node.kind not in ("name", "index") or node.source in names:
        return False
    return node.source in tensors or node.value in ("shape", "datatype") or _is_dtype(node)


def _is_dtype(node: Node) -> bool:
    try:
        return node.source.isupper() and dtype_of(node.source) is not None
    except ValueError:
        return False
