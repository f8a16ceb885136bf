"""Shape texts of outputs as statements of C++.

The texts are read as by ``xdlc.opdefs.shape_text``, so that the registration library infers the shapes that
the converter finds.  What is known only of an optional input, elements of tensors, and numbers that are not
whole are left to the user's function.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdlc.opdefs.constraint_parser import Node, parse
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.model import OpDef, ParamDef, TensorDef
from xdlc.opdefs.shape_text import ELLIPSIS, is_dim, stated_dims, whole_shape
from xdlc.udo.generator.quoting import c_string
from xdlc.udo.generator.shape_code import ExtentCode, UnknownError
from xdlc.udo.generator.template_context import Rule

_MOST = 16


def shape_rules(opdef: OpDef) -> Rule | None:
    """Return statements that set the shapes of all outputs, or None if the texts do not state them."""
    code = _scope(opdef)
    try:
        lines = [line for index, entry in enumerate(opdef.outputs) for line in _output(index, entry, code)]
    except UnknownError:
        return None
    checks = [line for index, entry in enumerate(opdef.inputs) for line in _checks(index, entry, code)]
    ranks = dict(sorted(code.ranks.items()))
    heads = [f"const xdlc_udo_tensor& in_{at} = op.shaped_input({at}, {rank});" for at, rank in ranks.items()]
    return (*heads, *checks, *lines)


def _scope(opdef: OpDef) -> ExtentCode:
    """What names mean in the op."""
    code = ExtentCode({entry.name: index for index, entry in enumerate(opdef.inputs) if _is_there(entry)})
    code.names = frozenset(stated_dims(opdef))
    for name, param in opdef.params.items():
        value = _integer(param)
        if value is not None:
            code.values[name] = value
    for index, entry in enumerate(opdef.inputs):
        for word, axis, rank in _words(entry) if _is_there(entry) else ():
            if word in code.names:
                code.named_dims.setdefault(word, (index, axis, rank))
        if _is_there(entry) and code.dots is None:
            code.dots = _dots(index, entry)
    return code


def _is_there(entry: TensorDef) -> bool:
    return entry.mandatory and not entry.repeated


def _integer(param: ParamDef) -> str | None:
    """The value of an integer parameter that is always there: given, or by its default."""
    if param.rank != 0 or param.enumeration or not {dtype.kind for dtype in param.dtypes} <= {"int", "uint"}:
        return None
    if param.default is None:
        return f"udo::Extent(op.integer({c_string(param.name)}))" if param.mandatory else None
    try:
        value = default_value(param)
    except ValueError:
        return None
    is_small = isinstance(value, int) and abs(value) < 1 << 62
    return f"udo::Extent(op.integer({c_string(param.name)}, {value}))" if is_small else None


def _stated(entry: TensorDef) -> tuple[str, ...]:
    """The words of a text that states dimensions."""
    words = entry.shape
    return words if len(words) <= _MOST and all(map(is_dim, words)) else ()


def _words(entry: TensorDef) -> Iterable[tuple[str, int, int]]:
    """Each word of a text with its axis, from the end after ``..``, and the least number of axes."""
    words = _stated(entry)
    dots = [index for index, word in enumerate(words) if word in ELLIPSIS]
    if len(dots) > 1:
        return
    rank = len(words) - len(dots)
    for index, word in enumerate(words):
        if index not in dots:
            yield word, index - len(words) if dots and index > dots[0] else index, rank


def _dots(index: int, entry: TensorDef) -> tuple[int, int, int] | None:
    """An input, and the number of axes before and after those of ``..``."""
    words = _stated(entry)
    places = [at for at, word in enumerate(words) if word in ELLIPSIS]
    return (index, places[0], len(words) - places[0] - 1) if len(places) == 1 else None


def _checks(index: int, entry: TensorDef, code: ExtentCode) -> Iterable[str]:
    """Statements that compare dimensions of one name, of inputs that the shapes depend on."""
    if index not in code.ranks:
        return
    for word, axis, rank in _words(entry):
        first = code.named_dims.get(word)
        if first is not None and first[:2] != (index, axis) and first[0] in code.ranks:
            code.ranks[index] = max(code.ranks[index], rank)
            code.ranks[first[0]] = max(code.ranks[first[0]], first[2])
            one, other = (f"udo::extent_of(in_{at}, {place})" for at, place in (first[:2], (index, axis)))
            yield f"udo::check_same({c_string(word)}, {one}, {other});"


def _output(index: int, entry: TensorDef, code: ExtentCode) -> list[str]:
    try:
        lines = _from_words(_stated(entry), code) or _from_whole(entry, code)
    except UnknownError:
        lines = _from_whole(entry, code)
    bound = "op.num_outputs()" if entry.repeated else f"op.num_outputs() && index == {index}"
    return [
        f"for (std::size_t index = {index}; index < {bound}; ++index) {{",
        *(f"  {line}" for line in lines),
        "}",
    ]


def _from_words(words: Sequence[str], code: ExtentCode) -> list[str]:
    lines = []
    for word in words:
        if word in ELLIPSIS:
            lines.append(code.spliced())
        else:
            lines.append(f"udo::add_extent(outputs[index], {code.of(parse(word))});")
    return lines


def _from_whole(entry: TensorDef, code: ExtentCode) -> list[str]:
    node = whole_shape(entry)
    if node is None:
        raise UnknownError
    tensors = [node]
    if node.kind == "call" and node.value == "broadcast":
        tensors = list(node.parts)
    sources = [code.tensor(_subject(each)) for each in tensors]
    if any(source is None for source in sources) or not sources:
        raise UnknownError
    for source in sources:
        code.ranks.setdefault(int(source or 0), 0)
    if len(sources) == 1:
        return [f"udo::add_axes(outputs[index], in_{sources[0]}, 0, 0);"]
    return [f"udo::add_broadcast(outputs[index], {{{', '.join(f'&in_{source}' for source in sources)}}});"]


def _subject(node: Node) -> Node:
    """The tensor whose shape is meant by ``x``, ``x.shape`` and ``shape of x``."""
    is_shape = node.kind == "call" and node.value == "shape" and len(node.parts) == 1
    return node.parts[0] if is_shape else node
