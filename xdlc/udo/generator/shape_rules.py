"""Shape texts of outputs as statements and expressions of C++.

The texts are read as by ``xdlc.opdefs.shape_text``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdlc.opdefs.constraint_parser import Node, parse
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.model import OpDef, ParamDef, TensorDef
from xdlc.opdefs.shape_text import ELLIPSIS, is_dim, stated_dims, whole_shape
from xdlc.udo.generator.naming import c_string
from xdlc.udo.generator.template_context import Rule

_CALLS = {"min": "udo::least", "max": "udo::most"}
_SINGLE = {"floor": "udo::floor_of", "ceil": "udo::ceil_of", "abs": "udo::magnitude"}
_LARGEST = 1 << 31


_ZERO = "udo::Extent(0)"


class UnknownError(Exception):
    """An expression that a library cannot evaluate."""


class DimCode:
    """Makes C++ of expressions about one operation.

    Args:
        inputs: Positions of the inputs that are always there, by name.

    Attributes:
        named_dims: Named dimensions: input, axis, and the least rank of the input.
        names: Names that are dimensions in expressions of numbers.
        values: Expressions of parameters, by name.
        dots: The input whose axes ``..`` denotes, with the number of axes before and after.
        ranks: How many axes the inputs must have that were used.
    """

    def __init__(self, inputs: dict[str, int]) -> None:
        self._inputs = inputs
        self.named_dims: dict[str, tuple[int, int, int]] = {}
        self.names: frozenset[str] = frozenset()
        self.values: dict[str, str] = {}
        self.dots: tuple[int, int, int] | None = None
        self.ranks: dict[int, int] = {}

    def of(self, node: Node) -> str:
        """Return the expression of a number.

        Raises:
            UnknownError: If a library cannot evaluate it.
        """
        if node.kind == "number" and isinstance(node.value, int) and node.value < _LARGEST:
            return f"udo::Extent({node.value})"
        if node.kind == "name" and node.value in self.names:
            return self._named(str(node.value))
        if node.kind == "name" and node.value in self.values:
            return self.values[str(node.value)]
        if node.kind == "sign":
            return f"({_ZERO} - {self.of(node.parts[0])})"
        if node.kind == "sum":
            return self._sum(node)
        if node.kind == "index":
            return self._indexed(node)
        if node.kind == "call":
            return self._call(node)
        raise UnknownError

    def tensor(self, node: Node) -> int | None:
        """Return the input that an expression names, or None."""
        if node.kind == "name":
            return self._inputs.get(str(node.value))
        if node.kind != "index" or node.source in self._inputs:
            return self._inputs.get(node.source)
        base, key = node.parts
        if base.value != "in" or not isinstance(key.value, int) or key.value not in self._inputs.values():
            return None
        return key.value

    def spliced(self) -> str:
        """Return the statement that adds the axes of ``..``.

        Raises:
            UnknownError: If no input has them.
        """
        if self.dots is None:
            raise UnknownError
        index, before, after = self.dots
        self._need(index, before + after)
        return f"udo::add_axes(outputs[index], in_{index}, {before}, {after});"

    def _need(self, index: int, rank: int) -> None:
        self.ranks[index] = max(self.ranks.get(index, 0), rank)

    def _named(self, name: str) -> str:
        if name not in self.named_dims:
            raise UnknownError
        index, axis, rank = self.named_dims[name]
        self._need(index, rank)
        return f"udo::extent_of(in_{index}, {axis})"

    def _sum(self, node: Node) -> str:
        left, right = (self.of(part) for part in node.parts)
        if node.value == "//":
            return f"udo::floor_of({left} / {right})"
        if node.value == "%":
            return f"({left} - {right} * udo::floor_of({left} / {right}))"
        return f"({left} {node.value} {right})"

    def _indexed(self, node: Node) -> str:
        base, key = node.parts
        if base.kind != "call" or base.value != "shape" or len(base.parts) != 1:
            raise UnknownError
        return self._axis(base.parts[0], key)

    def _axis(self, subject: Node, key: Node) -> str:
        index, sign = self.tensor(subject), 1
        if key.kind == "sign":
            key, sign = key.parts[0], -1
        if index is None or key.kind != "number" or not isinstance(key.value, int) or key.value > 64:
            raise UnknownError
        axis = sign * key.value
        self._need(index, axis + 1 if axis >= 0 else -axis)
        return f"udo::extent_of(in_{index}, {axis})"

    def _call(self, node: Node) -> str:
        name = str(node.value)
        if name in _CALLS and len(node.parts) > 1:
            found = self.of(node.parts[0])
            for part in node.parts[1:]:
                found = f"{_CALLS[name]}({found}, {self.of(part)})"
            return found
        if name in _SINGLE and len(node.parts) == 1:
            return f"{_SINGLE[name]}({self.of(node.parts[0])})"
        if name == "dim" and len(node.parts) == 2:
            return self._axis(*node.parts)
        index = self.tensor(node.parts[0]) if name in ("rank", "size") and len(node.parts) == 1 else None
        if index is None:
            raise UnknownError
        self._need(index, 0)
        return f"udo::Extent(in_{index}.rank)" if name == "rank" else f"udo::size_of(in_{index})"


_MOST = 16


def shape_rules(opdef: OpDef) -> Rule | None:
    """Return statements that set the shapes of all outputs, or None if unknown."""
    code = _scope(opdef)
    try:
        lines = [line for index, entry in enumerate(opdef.outputs) for line in _output(index, entry, code)]
    except UnknownError:
        return None
    checks = [line for index, entry in enumerate(opdef.inputs) for line in _checks(index, entry, code)]
    ranks = dict(sorted(code.ranks.items()))
    heads = [f"const xdlc_udo_tensor& in_{at} = op.shaped_input({at}, {rank});" for at, rank in ranks.items()]
    return (*heads, *checks, *lines)


def _scope(opdef: OpDef) -> DimCode:
    """Return the scope of names in the texts of an op."""
    code = DimCode({entry.name: index for index, entry in enumerate(opdef.inputs) if _is_there(entry)})
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
    """Return the value of an integer parameter that is given or has a default."""
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
    """Return the words of a text with their axes, and the least number of axes."""
    words = _stated(entry)
    dots = [index for index, word in enumerate(words) if word in ELLIPSIS]
    if len(dots) > 1:
        return
    rank = len(words) - len(dots)
    for index, word in enumerate(words):
        if index not in dots:
            yield word, index - len(words) if dots and index > dots[0] else index, rank


def _dots(index: int, entry: TensorDef) -> tuple[int, int, int] | None:
    """An input, and the number of axes before and after its ``..``."""
    words = _stated(entry)
    places = [at for at, word in enumerate(words) if word in ELLIPSIS]
    return (index, places[0], len(words) - places[0] - 1) if len(places) == 1 else None


def _checks(index: int, entry: TensorDef, code: DimCode) -> Iterable[str]:
    """Return statements that compare dimensions of one name."""
    if index not in code.ranks:
        return
    for word, axis, rank in _words(entry):
        first = code.named_dims.get(word)
        if first is not None and first[:2] != (index, axis) and first[0] in code.ranks:
            code.ranks[index] = max(code.ranks[index], rank)
            code.ranks[first[0]] = max(code.ranks[first[0]], first[2])
            one, other = (f"udo::extent_of(in_{at}, {place})" for at, place in (first[:2], (index, axis)))
            yield f"udo::check_same({c_string(word)}, {one}, {other});"


def _output(index: int, entry: TensorDef, code: DimCode) -> list[str]:
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


def _from_words(words: Sequence[str], code: DimCode) -> list[str]:
    lines = []
    for word in words:
        if word in ELLIPSIS:
            lines.append(code.spliced())
        else:
            lines.append(f"udo::add_extent(outputs[index], {code.of(parse(word))});")
    return lines


def _from_whole(entry: TensorDef, code: DimCode) -> list[str]:
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
