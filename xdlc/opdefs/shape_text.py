"""Output shapes from what definitions say of them in ``Shape/Text``.

======================================= =======================================================
Text                                    Meaning
======================================= =======================================================
``[N, H, W, C]``                        one extent each; a name means one number in the whole op
``[N, H / stride, 2 * C + 1]``          arithmetic (see ``xdlc.opdefs.constraint_parser``), rounded down
``[in[0].dim[0], shape(w)[1], axis]``   extents of other tensors, values of parameters
``[.., C]``                             ``..`` stands for the axes that it stands for in an input
``_``                                   any extent, of which nothing is said
``shape = shape of in[0]``              a shape as a whole: ``in[0]``, ``broadcast(in[0], in[1])``;
                                        ``same as in[0]`` says it too
======================================= =======================================================

Named extents are known from the inputs, whose texts say which axis is which.  Where a number is meant,
``w`` is the extent that a text names, even if an input is called ``w`` too.  Other texts are words for
people and tell nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from xdlc.errors import ConstraintError
from xdlc.ir.dtype import UNDEFINED
from xdlc.opdefs.constraint_eval import Place, UnknownError, Value, evaluate
from xdlc.opdefs.constraint_parser import Node, NotAnExpressionError, parse
from xdlc.opdefs.constraint_scope import OpScope
from xdlc.opdefs.extent_names import ANY, stated_names, with_extents
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.opdefs.op_view import OpView, TensorSpec

ELLIPSIS = ("..", "...")
_FIX = "correct the text of the shape in the definition, or the model"
_WHOLE = re.compile(r"(?:the )?(?:shape (?:=|==|is) )?(?:the )?(?:same (?:shape )?as )?(.+)", re.IGNORECASE)
Extents = list[int | None]


def infer(definition: OpDef, view: OpView, count: int | None = None) -> list[TensorSpec | None] | None:
    """Return what an op gives as far as its definition tells; None if it tells nothing.

    Args:
        definition: The op's definition.
        view: The op; its outputs are not looked at beyond their number.
        count: Number of outputs; default: those of ``view``, or else of the definition.

    Raises:
        ConstraintError: If extents of one name differ, or a shape contradicts a text.
    """
    bound, conflicts = named_extents(definition, view)
    if conflicts:
        raise ConstraintError(conflicts[0], where=f"op {view.name!r} ({definition.name})", fix=_FIX)
    scope = OpScope(definition, view, None, bound)
    outputs = definition.outputs
    number = count if count is not None else len(view.outputs) or len(outputs)
    found: list[TensorSpec | None] = []
    for index in range(number if outputs else 0):
        entry = outputs[min(index, len(outputs) - 1)]
        shape = _output_shape(entry, scope)
        dtype = entry.dtypes[0] if len(entry.dtypes) == 1 else UNDEFINED
        found.append(None if shape is None else TensorSpec(tuple(shape), dtype, entry.name, entry.layout))
    return found if any(spec is not None for spec in found) else None


def named_extents(
    definition: OpDef, view: OpView, outputs: Sequence[TensorSpec | None] = ()
) -> tuple[dict[str, Value], list[str]]:
    """Return the extents that texts name, and where shapes contradict the texts.

    Args:
        definition: The op's definition.
        view: The op.
        outputs: Its outputs, if they are to be checked as well.
    """
    bound: dict[str, Value] = {}
    givers: dict[str, str] = {}
    conflicts: list[str] = []
    stated = [
        *_stated("input", definition.inputs, view.inputs),
        *_stated("output", definition.outputs, outputs),
    ]
    stated += _stated_params(definition, view)
    later: list[tuple[str, TensorSpec, str, int | None]] = []
    for title, entry, tensor in stated:
        pairs = _matched(entry.shape, tensor.shape, bound)
        if pairs is None:
            conflicts.append(f"{title} has shape {shown(tensor.shape)}, but its definition says {entry.text}")
            continue
        for word, extent in pairs:
            if not word.isidentifier() or word in definition.params or word == ANY:
                later.append((title, tensor, word, extent))
            elif bound.get(word) is None:
                bound[word] = extent
                givers[word] = f"{title} {shown(tensor.shape)}"
            elif extent is not None and bound[word] != extent:
                here = f"{extent} by {title} {shown(tensor.shape)}"
                conflicts.append(f"extent {word} is {bound[word]} by {givers[word]}, but {here}")
    scope = OpScope(definition, replace(view, outputs=tuple(outputs)), None, bound)
    for title, tensor, word, extent in later:
        try:
            wanted = _extent(word, scope)
        except UnknownError:
            continue
        if wanted is not None and extent is not None and wanted != extent:
            words = f"{wanted} is expected" if word.isdigit() else f"{word} is {wanted}"
            conflicts.append(f"{title} has shape {shown(tensor.shape)}, but {words}, not {extent}")
    return bound, conflicts


def input_shape(definition: OpDef, view: OpView, entry: TensorDef) -> Extents | None:
    """Return what the text of an input tells of its shape, as far as the inputs that are there tell it."""
    return _from_text(entry, OpScope(definition, view, None, named_extents(definition, view)[0]))


def _stated(
    side: str, definitions: Sequence[TensorDef], tensors: Sequence[TensorSpec | None]
) -> Iterator[tuple[str, TensorDef, TensorSpec]]:
    """Yield tensors whose definition states their extents."""
    for index, tensor in enumerate(tensors):
        if tensor is not None and definitions:
            entry = definitions[min(index, len(definitions) - 1)]
            if entry.shape and all(is_extent(word) for word in entry.shape):
                yield f"{side} {entry.name!r}", entry, tensor


def _stated_params(definition: OpDef, view: OpView) -> Iterator[tuple[str, TensorDef, TensorSpec]]:
    for name, entry in definition.params.items():
        shape = getattr(view.params.get(name), "shape", None)
        if shape is not None and entry.shape and all(map(is_extent, entry.shape)):
            yield f"parameter {name!r}", entry, TensorSpec(tuple(shape), UNDEFINED)


def is_extent(word: str) -> bool:
    """Return whether a part of a list is an extent, or ``..``, which stands for several."""
    if word in ELLIPSIS:
        return True
    try:
        parse(word)
    except NotAnExpressionError:
        return False
    return True


def _matched(
    words: Sequence[str], shape: Sequence[int | None], bound: dict[str, Value]
) -> list[tuple[str, int | None]] | None:
    """Return each word with its extent, None if their numbers differ; bind what ``..`` stands for."""
    dots = [index for index, word in enumerate(words) if word in ELLIPSIS]
    if len(dots) != 1:
        return list(zip(words, shape, strict=True)) if not dots and len(words) == len(shape) else None
    cut, tail = dots[0], len(words) - dots[0] - 1
    if len(shape) < cut + tail:
        return None
    bound.setdefault("..", list(shape[cut : len(shape) - tail]))
    ends = [*shape[:cut], *(shape[-tail:] if tail else ())]
    return list(zip([*words[:cut], *words[cut + 1 :]], ends, strict=True))


def _output_shape(entry: TensorDef, scope: OpScope) -> Extents | None:
    shape = _from_text(entry, scope)
    if shape is None:
        own = replace(scope, own=entry)
        for rule in entry.constraints:
            if shape is None and rule.type in ("Shape", ""):
                shape = _from_rule(rule.text, entry, own)
    if shape is None:
        return None
    title = f"output {entry.name!r} of op {scope.view.name!r} ({scope.definition.name})"
    if entry.rank is not None and len(shape) != entry.rank:
        raise ConstraintError(f"{title} is of rank {entry.rank}, but its text gives {shown(shape)}", fix=_FIX)
    if any(extent is not None and extent < 0 for extent in shape):
        raise ConstraintError(f"{title} has a negative extent by its text: {shown(shape)}", fix=_FIX)
    return shape


def _from_text(entry: TensorDef, scope: OpScope) -> Extents | None:
    if entry.shape:
        found: Extents = []
        try:
            for word in entry.shape:
                if word in ELLIPSIS and ".." in scope.extents:
                    found += scope.extents[".."]
                else:
                    found.append(_extent(word, scope))
        except UnknownError:
            return None
        return found
    match = _WHOLE.fullmatch(entry.text)
    if match is None:
        return None
    return _whole(match[1], scope)


def _from_rule(text: str, entry: TensorDef, scope: OpScope) -> Extents | None:
    """Return the shape that a rule ``shape = in[0]`` demands."""
    node = _demanded(text, entry)
    return None if node is None else _shape_value(node, scope)


def _demanded(text: str, entry: TensorDef) -> Node | None:
    try:
        node = parse(text)
    except NotAnExpressionError:
        return None
    own = ("shape", f"shape({entry.name})", f"shape of {entry.name}", f"{entry.name}.shape")
    if node.kind != "compare" or node.value != ("==",) or node.parts[0].source not in own:
        return None
    return node.parts[1]


def whole_shape(entry: TensorDef) -> Node | None:
    """Return the expression that tells a shape as a whole, by a text or a rule; None if there is none."""
    match = None if entry.shape else _WHOLE.fullmatch(entry.text)
    if match is not None:
        try:
            return parse(match[1])
        except NotAnExpressionError:
            pass
    rules = (rule.text for rule in entry.constraints if rule.type in ("Shape", ""))
    return next((node for text in rules if (node := _demanded(text, entry)) is not None), None)


def _whole(text: str, scope: OpScope) -> Extents | None:
    try:
        return _shape_value(parse(text), scope)
    except NotAnExpressionError:
        return None


def _shape_value(node: Node, scope: OpScope) -> Extents | None:
    node = with_extents(node, stated_names(scope.definition), numeric=False)
    if scope.unknown(node) is not None:
        return None
    try:
        value = evaluate(node, scope)
    except UnknownError:
        return None
    if isinstance(value, Place):
        present = [tensor for tensor in value.tensors if tensor is not None]
        return list(present[0].shape) if present and not value.repeated else None
    if not isinstance(value, list) or not value:
        return None
    found = [None if item is None else _whole_number(item) for item in value]
    return (
        None
        if any(item is not None and one is None for item, one in zip(value, found, strict=True))
        else found
    )


def word_extent(word: str, scope: OpScope) -> tuple[bool, int | None]:
    """Return whether a part of a list tells an extent of an op, and which; None for an open one."""
    try:
        return True, _extent(word, scope)
    except UnknownError:
        return False, None


def _extent(word: str, scope: OpScope) -> int | None:
    """Return the extent that a word stands for, None for an open one.

    Raises:
        UnknownError: If it tells none.
    """
    try:
        node = with_extents(parse(word), stated_names(scope.definition))
    except NotAnExpressionError:
        raise UnknownError from None
    if scope.unknown(node) is not None:
        raise UnknownError
    value = evaluate(node, scope)
    if value is None:
        return None
    number = _whole_number(value)
    if number is None:
        raise UnknownError
    return number


def _whole_number(value: Value) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        return None
    return math.floor(value) if math.isfinite(value) else None


def shown(shape: Sequence[int | None]) -> str:
    """Return a shape for a message.

    Example:
        >>> shown([1, None])
        '[1, ?]'
    """
    return f"[{', '.join('?' if extent is None else str(extent) for extent in shape)}]"
