"""Reasons why the text of an output does not determine its shape."""

from __future__ import annotations

from collections.abc import Iterator

from xdlc.opdefs.constraint_parser import Node, NotAnExpressionError, parse
from xdlc.opdefs.constraint_scope import OpScope
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.opdefs.op_view import OpView
from xdlc.opdefs.shape_text import ANY, ELLIPSIS, described, named_dims, stated_dims, whole_shape, word_dim

_MAX_TEXT = 60


def why_unknown(definition: OpDef, view: OpView, entry: TensorDef) -> str:
    """Return why an output's text does not determine its shape, or "".

    Args:
        definition: The op's definition.
        view: The op; its outputs are not read.
        entry: The output's definition.
    """
    if not entry.text:
        return ""
    if not entry.shape:
        return "" if whole_shape(entry) else f"its text {_short(entry.text)!r} is no list of dimensions"
    dims, conflicts = named_dims(definition, view)
    if conflicts:
        return described(definition, conflicts[0])
    scope = OpScope(definition, view, None, dims)
    for word in entry.shape:
        if word in ELLIPSIS and ".." not in dims:
            return f"no input binds {word!r} of its text"
        if word not in ELLIPSIS and not word_dim(word, scope)[0]:
            return f"{_reason(word, scope)} (its text is {_short(entry.text)})"
    return ""


def undetermined(definition: OpDef) -> Iterator[tuple[TensorDef, str]]:
    """Yield outputs with a dimension that no input or parameter binds."""
    bound = stated_dims(definition, outputs=False)
    tensors = {entry.name for entry in (*definition.inputs, *definition.outputs)}
    for entry in definition.outputs:
        words = [word for word in entry.shape if word in tensors and word not in (*bound, *definition.params)]
        if words:
            yield entry, _like_a_tensor(words[0])


def _reason(word: str, scope: OpScope) -> str:
    if word == ANY:
        return f"{ANY!r} matches any dimension"
    try:
        node = parse(word)
    except NotAnExpressionError as error:
        return f"{_short(word)!r} is no expression: {error}"
    for name in _numbers_of(node):
        if name not in scope.dims and name in stated_dims(scope.definition, outputs=False):
            return f"no input or parameter of the op binds dimension {name!r}"
        if name not in scope.dims and scope.tensors(name) is not None:
            return _like_a_tensor(name)
    unbound = scope.unknown(node)
    if unbound is not None:
        return f"{unbound!r} is in no input's Shape/Text, and no parameter"
    for param in _numbers_of(node):
        if param in scope.definition.params and param not in scope.view.params:
            return f"parameter {param!r} is not set"
    return f"{_short(word)!r} is no whole number here"


def _like_a_tensor(name: str) -> str:
    return (
        f"{name!r} is the name of a tensor, not of a dimension, as no input's Shape/Text has it: write it "
        f"there, or shape({name})[i] for a dimension of that tensor"
    )


def _numbers_of(node: Node) -> Iterator[str]:
    """Yield the names that mean numbers in an expression."""
    if node.kind == "name":
        yield str(node.value)
    if node.kind in ("sum", "sign") or node.value in ("min", "max", "abs", "floor", "ceil"):
        for part in node.parts:
            yield from _numbers_of(part)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."
