"""Inference of output shapes from the ``Shape/Text`` of definitions.

======================================= =======================================================
Text                                    Meaning
======================================= =======================================================
``[N, H, W, C]``                        one dimension each; a name is bound to one number in the op
``[N, H / stride, 2 * C + 1]``          expressions (see ``constraint_parser``), rounded down
``[in[0].dim[0], shape(w)[1], axis]``   dimensions of other tensors, values of parameters
``[.., C]``                             ``..`` is bound to the axes that it matches in an input
``_``                                   any dimension
``shape = shape of in[0]``              a whole shape: ``in[0]``, ``broadcast(in[0], in[1])``;
                                        also ``same as in[0]``
======================================= =======================================================

Named dimensions are bound by the inputs, whose texts name the axes.  Where a number is expected, ``w`` is the
dimension that a text names, even if an input is called ``w`` too.  Other texts are documentation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from xdlc.errors import ConstraintError
from xdlc.ir.dtype import UNDEFINED
from xdlc.opdefs.constraint_eval import Place, UnknownError, Value, evaluate
from xdlc.opdefs.constraint_parser import Node, NotAnExpressionError, is_expression, parse
from xdlc.opdefs.constraint_scope import OpScope
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.opdefs.op_view import OpView, TensorSpec

ANY = "_"
ELLIPSIS = ("..", "...")
_FIX = "correct the text of the shape in the definition, or the model"
_WHOLE = re.compile(r"(?:the )?(?:shape (?:=|==|is) )?(?:the )?(?:same (?:shape )?as )?(.+)", re.IGNORECASE)
Dims = list[int | None]


class Conflict(NamedTuple):
    """A shape that contradicts a text.

    Attributes:
        side: ``input``, ``output`` or ``param``.
        at: Position of the tensor, or name of the parameter.
        expected: What the texts state.
        found: What the tensor has.
    """

    side: str
    at: int | str
    expected: str
    found: str


def stated_dims(definition: OpDef, *, outputs: bool = True) -> list[str]:
    """Return the names of dimensions in the texts of a definition.

    Without outputs, these are the names that its texts bind.
    """
    entries = (*definition.inputs, *(definition.outputs if outputs else ()), *definition.params.values())
    words = [word for entry in entries for word in entry.shape]
    return [word for word in words if word.isidentifier() and word != ANY and word not in definition.params]


def infer(definition: OpDef, view: OpView, count: int | None = None) -> list[TensorSpec | None] | None:
    """Return the outputs of an op by the shape texts of its definition, or None.

    Args:
        view: The op; of its outputs only the number is read.
        count: Number of outputs; default: those of ``view``, or else of the definition.

    Raises:
        ConstraintError: If dimensions of one name differ, or a shape contradicts a text.
    """
    dims, conflicts = named_dims(definition, view)
    if conflicts:
        raise ConstraintError(
            described(definition, conflicts[0]), where=f"op {view.name!r} ({definition.name})", fix=_FIX
        )
    scope = OpScope(definition, view, None, dims)
    outputs = definition.outputs
    number = count if count is not None else len(view.outputs) or len(outputs)
    specs: list[TensorSpec | None] = []
    for index in range(number if outputs else 0):
        entry = outputs[min(index, len(outputs) - 1)]
        shape = _output_shape(entry, scope)
        dtype = entry.dtypes[0] if len(entry.dtypes) == 1 else UNDEFINED
        specs.append(None if shape is None else TensorSpec(tuple(shape), dtype, entry.name, entry.layout))
    return specs if any(spec is not None for spec in specs) else None


def named_dims(
    definition: OpDef, view: OpView, outputs: Sequence[TensorSpec | None] = ()
) -> tuple[dict[str, Value], list[Conflict]]:
    """Return the sizes of named dimensions, and conflicts of shapes with texts.

    Args:
        outputs: Its outputs, if they are to be checked as well.
    """
    bound: dict[str, Value] = {}
    origins: dict[str, str] = {}
    conflicts: list[Conflict] = []
    later: list[tuple[str, int | str, TensorSpec, int, str]] = []
    for side, index, entry, tensor in _stated(definition, view, outputs):
        pairs = _matched(entry.shape, tensor.shape, bound)
        if pairs is None:
            conflicts.append(Conflict(side, index, entry.text, f"shape {shown(tensor.shape)}"))
            continue
        for axis, word in pairs:
            size = tensor.shape[axis]
            if not word.isidentifier() or word in definition.params:
                later.append((side, index, tensor, axis, word))
            elif word == ANY:
                continue
            elif bound.get(word) is None:
                bound[word] = size
                origins[word] = entry.name
            elif size is not None and bound[word] != size:
                expected = f"dimension {bound[word]} ({word}, as in {origins[word]!r}) on axis {axis}"
                conflicts.append(Conflict(side, index, expected, f"shape {shown(tensor.shape)}"))
    if later:
        scope = OpScope(definition, replace(view, outputs=tuple(outputs)), None, bound)
        for side, index, tensor, axis, word in later:
            known, wanted = word_dim(word, scope)
            if known and None not in (wanted, tensor.shape[axis]) and wanted != tensor.shape[axis]:
                expected = f"dimension {wanted}{'' if word.isdigit() else f' ({word})'} on axis {axis}"
                conflicts.append(Conflict(side, index, expected, f"shape {shown(tensor.shape)}"))
    return bound, conflicts


def described(definition: OpDef, conflict: Conflict) -> str:
    """Return a conflict as a sentence, with the tensor's name in the definition."""
    if conflict.side == "param":
        return f"parameter {conflict.at!r}: expected {conflict.expected}, found {conflict.found}"
    held = definition.inputs if conflict.side == "input" else definition.outputs
    entry = held[min(int(conflict.at), len(held) - 1)]
    return f"{conflict.side} {entry.name!r}: expected {conflict.expected}, found {conflict.found}"


def _stated(
    definition: OpDef, view: OpView, outputs: Sequence[TensorSpec | None]
) -> Iterator[tuple[str, int | str, TensorDef, TensorSpec]]:
    """Yield tensors whose definition states their dimensions."""
    for side, definitions, tensors in (
        ("input", definition.inputs, view.inputs),
        ("output", definition.outputs, outputs),
    ):
        for index, tensor in enumerate(tensors):
            if tensor is not None and definitions:
                entry = definitions[min(index, len(definitions) - 1)]
                if states_dims(entry):
                    yield side, index, entry, tensor
    for name, entry in definition.params.items():
        shape = getattr(view.params.get(name), "shape", None)
        if shape is not None and states_dims(entry):
            yield "param", name, entry, TensorSpec(tuple(shape), UNDEFINED, name)


def states_dims(entry: TensorDef) -> bool:
    """Return whether a text is a list of dimensions."""
    return _are_dims(entry.shape)


@lru_cache(maxsize=4096)
def _are_dims(words: tuple[str, ...]) -> bool:
    return bool(words) and all(map(is_dim, words))


def is_dim(word: str) -> bool:
    """Return whether an item of a list is a dimension or ``..``."""
    return word in ELLIPSIS or is_expression(word)


def _matched(
    words: Sequence[str], shape: Sequence[int | None], bound: dict[str, Value]
) -> Iterable[tuple[int, str]] | None:
    """Return each word with its axis, or None; bind the axes of ``..``."""
    dots = [index for index, word in enumerate(words) if word in ELLIPSIS]
    if not dots:
        return enumerate(words) if len(words) == len(shape) else None
    cut, tail = dots[0], len(words) - dots[0] - 1
    if len(dots) > 1 or len(shape) < cut + tail:
        return None
    bound.setdefault("..", list(shape[cut : len(shape) - tail]))
    axes = [*range(cut), *range(len(shape) - tail, len(shape))]
    return zip(axes, [*words[:cut], *words[cut + 1 :]], strict=True)


def _output_shape(entry: TensorDef, scope: OpScope) -> Dims | None:
    shape = _listed(entry, scope)
    own = replace(scope, own=entry)
    for node in _whole_shapes(entry):
        shape = shape or _shape_value(node, own)
    if shape is None:
        return None
    title = f"output {entry.name!r} of op {scope.view.name!r} ({scope.definition.name})"
    if entry.rank is not None and len(shape) != entry.rank:
        raise ConstraintError(f"{title} has rank {entry.rank}, but its text states {shown(shape)}", fix=_FIX)
    if any(size is not None and size < 0 for size in shape):
        raise ConstraintError(f"{title} has a negative dimension by its text: {shown(shape)}", fix=_FIX)
    return shape


def input_shape(definition: OpDef, view: OpView, entry: TensorDef) -> Dims | None:
    """Return the shape that an input's text states with the bound names."""
    scope = OpScope(definition, view, None, named_dims(definition, view)[0])
    shape = _listed(entry, scope)
    node = None if shape else next(_whole_shapes(replace(entry, constraints=())), None)
    return shape if node is None else _shape_value(node, scope)


def _listed(entry: TensorDef, scope: OpScope) -> Dims | None:
    dims: Dims = []
    for word in entry.shape:
        if word in ELLIPSIS and ".." in scope.dims:
            dims += scope.dims[".."]
            continue
        is_known, size = word_dim(word, scope)
        if not is_known:
            return None
        dims.append(size)
    return dims or None


def whole_shape(entry: TensorDef) -> Node | None:
    """Return the expression of a whole shape from text or constraint, or None."""
    return next(_whole_shapes(entry), None)


def _whole_shapes(entry: TensorDef) -> Iterator[Node]:
    match = None if entry.shape else _WHOLE.fullmatch(entry.text)
    if match is not None and is_expression(match[1]):
        yield parse(match[1])
    own = ("shape", f"shape({entry.name})", f"shape of {entry.name}", f"{entry.name}.shape")
    for rule in entry.constraints:
        if rule.type in ("Shape", "") and is_expression(rule.text):
            node = parse(rule.text)
            if node.kind == "compare" and node.value == ("==",) and node.parts[0].source in own:
                yield node.parts[1]


def _shape_value(node: Node, scope: OpScope) -> Dims | None:
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
    found = [_whole_number(item) for item in value]
    is_odd = any(item is not None and one is None for item, one in zip(value, found, strict=True))
    return None if is_odd else found


def word_dim(word: str, scope: OpScope) -> tuple[bool, int | None]:
    """Return whether an item states a dimension, and its size; None if dynamic."""
    try:
        node = parse(word)
        if scope.unknown(node) is not None:
            return False, None
        value = evaluate(node, scope)
    except (NotAnExpressionError, UnknownError):
        return False, None
    value = value.dim[0] if isinstance(value, Place) and value.dim else value
    number = _whole_number(value)
    return value is None or number is not None, number


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
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


_MAX_TEXT = 60


def why_unknown(definition: OpDef, view: OpView, entry: TensorDef) -> str:
    """Return why an output's text does not determine its shape, or "".

    Args:
        view: The op; its outputs are not read.
    """
    if not entry.text:
        return ""
    if not entry.shape:
        return "" if whole_shape(entry) else f"its text {_short(entry.text)!r} is not a list of dimensions"
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
        return f"{_short(word)!r} is not an expression: {error}"
    for name in _numbers_of(node):
        if name not in scope.dims and name in stated_dims(scope.definition, outputs=False):
            return f"no input or parameter of the op binds dimension {name!r}"
        if name not in scope.dims and scope.tensors(name) is not None:
            return _like_a_tensor(name)
    unbound = scope.unknown(node)
    if unbound is not None:
        return f"{unbound!r} is neither in the Shape/Text of an input nor a parameter"
    for param in _numbers_of(node):
        if param in scope.definition.params and param not in scope.view.params:
            return f"parameter {param!r} is not set"
    return f"{_short(word)!r} is not a whole number for this op"


def _like_a_tensor(name: str) -> str:
    return (
        f"{name!r} is the name of a tensor, not of a dimension: write it in an input's Shape/Text, or "
        f"write shape({name})[i] for a dimension of that tensor"
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
