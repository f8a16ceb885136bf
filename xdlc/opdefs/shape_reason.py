"""Why the text of an output does not tell its shape."""

from __future__ import annotations

from collections.abc import Iterator

from xdlc.opdefs.constraint_parser import Node, NotAnExpressionError, parse
from xdlc.opdefs.constraint_scope import OpScope
from xdlc.opdefs.extent_names import ANY, stated_names, told_names, with_extents
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.opdefs.op_view import OpView
from xdlc.opdefs.shape_text import ELLIPSIS, named_extents, whole_shape, word_extent

_LONGEST = 60


def why_unknown(definition: OpDef, view: OpView, entry: TensorDef) -> str:
    """Return why the text of an output does not tell its shape; empty if it has none, or tells it.

    Args:
        definition: The op's definition.
        view: The op; its outputs are not looked at.
        entry: The output's definition.
    """
    if not entry.text:
        return ""
    if not entry.shape:
        return "" if whole_shape(entry) else f"its text {_short(entry.text)!r} is no list of extents"
    extents, conflicts = named_extents(definition, view)
    if conflicts:
        return conflicts[0]
    scope = OpScope(definition, view, None, extents)
    for word in entry.shape:
        if word in ELLIPSIS and ".." not in extents:
            return f"no input tells what {word!r} in its text stands for"
        if word not in ELLIPSIS and not word_extent(word, scope)[0]:
            return f"{_reason(word, scope)} (its text is {_short(entry.text)})"
    return ""


def untold(definition: OpDef) -> Iterator[tuple[TensorDef, str]]:
    """Yield outputs of which an extent is named like a tensor, while no input or parameter tells it."""
    told = told_names(definition)
    tensors = {entry.name for entry in (*definition.inputs, *definition.outputs)}
    for entry in definition.outputs:
        words = [word for word in entry.shape if word in tensors and word not in (*told, *definition.params)]
        if words:
            yield entry, _like_a_tensor(words[0])


def _reason(word: str, scope: OpScope) -> str:
    if word == ANY:
        return f"{ANY!r} says nothing of an extent"
    try:
        node = with_extents(parse(word), stated_names(scope.definition))
    except NotAnExpressionError as error:
        return f"{_short(word)!r} is no expression: {error}"
    name = scope.unknown(node)
    if name is not None and name in told_names(scope.definition):
        return f"no input or parameter that is there tells extent {name!r}"
    if name is not None and scope.tensors(name) is not None:
        return _like_a_tensor(name)
    if name is not None:
        return f"{name!r} is in no input's Shape/Text, and no parameter"
    for param in _names_of(node):
        if param in scope.definition.params and param not in scope.view.params:
            return f"parameter {param!r} is not given"
    return f"{_short(word)!r} gives no whole number here"


def _like_a_tensor(name: str) -> str:
    return (
        f"{name!r} is the name of a tensor, not of an extent, as no input's Shape/Text has it: write it "
        f"there, or shape({name})[i] for an extent of that tensor"
    )


def _names_of(node: Node) -> Iterator[str]:
    if node.kind == "name":
        yield str(node.value)
    for part in node.parts:
        yield from _names_of(part)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
