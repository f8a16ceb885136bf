"""Drafts of definitions for a model's operators that have no mapping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdlc.errors import ModelError, UnsupportedOp, XdlcError, raise_all
from xdlc.ir.data import TensorData
from xdlc.ir.dtype import (
    BOOL8,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    UFIXED8,
    UFIXED16,
    UINT32,
    UINT64,
    DType,
    from_numpy,
)
from xdlc.opdefs.backends import is_fixed_point
from xdlc.opdefs.model import Collection, DescriptionPart, OpDef, ParamDef, TensorDef
from xdlc.opdefs.semantics import check_collection, identifier_problem
from xdlc.opdefs.shape_text import shown
from xdlc.opdefs.source_match import Declared, UncoveredNode, attributes_named, path_ends
from xdlc.opdefs.values import bounds
from xdlc.opdefs.xml_elements import VERSION
from xdlc.options import spell

_NARROWER = {INT64: INT32, UINT64: UINT32, FLOAT64: FLOAT32}
_MAX_TEXT, _MAX_EXAMPLES, _MAX_NODES, _MAX_RANK = 60, 3, 3, 4

FLOAT_TYPES = (FLOAT32, UFIXED8, UFIXED16)
"""Data types of float inputs and outputs: floats, and those of a quantizer."""
BACKENDS = ("CPU",)
"""Default backends."""
_SAME_SHAPE = "same as in[0]"


@dataclass(frozen=True, slots=True)
class Draft:
    """Skeletons of definitions.

    Attributes:
        collections: The packages: one, unless operators of several domains have one name.
        notices: Assumptions, and what is still to be stated.
        problems: Operators that cannot have a definition.
    """

    collections: tuple[Collection, ...]
    notices: tuple[str, ...]
    problems: tuple[XdlcError, ...] = ()


def draft(
    nodes: Sequence[UncoveredNode],
    package: str,
    model: str,
    *,
    same_shapes: bool = False,
    float_types: Sequence[DType] = (),
    backends: Sequence[str] = BACKENDS,
) -> Draft:
    """Return a definition for each operator that can have one, from all its nodes.

    Args:
        nodes: The nodes, in the order of the model.
        package: Name of the package.
        model: Name of the model, for descriptions.
        same_shapes: Whether outputs whose shape the model does not state in full get that of the first input.
        float_types: Data types of inputs and outputs that are floats in the model; default: float32, and
            those of a quantizer if a backend computes with fixed point.
        backends: Backends that the package is for.

    Raises:
        UnsupportedOp: If no operator can have a definition; all reasons are listed.
        ModelError: If the package's name cannot stand in a definition.
    """
    nothing = Collection(package, "", VERSION, (), ())
    raise_all(
        [
            ModelError(problem.problem, fix=f"give another {spell('package_name')}")
            for problem in check_collection(nothing, {("PackageName",): "name"})
            if problem.where
        ]
    )
    groups: dict[tuple[str, str], list[UncoveredNode]] = {}
    for node in nodes:
        groups.setdefault((node.domain, node.type), []).append(node)
    reals = float_types or (FLOAT_TYPES if any(map(is_fixed_point, backends)) else FLOAT_TYPES[:1])
    drafting = _Drafting(package, model, same_shapes, tuple(reals), tuple(backends))
    problems: list[XdlcError] = []
    types = {type for _, type in groups}
    for group in groups.values():
        reasons: list[XdlcError] = [problem for node in group for problem in _odd(node)]
        problems += reasons or drafting.add(shortest_name(group[0].type, types), group)
    if not drafting.opdefs:
        raise_all(problems, where=model)
    return Draft(tuple(drafting.collections()), tuple(drafting.notices), tuple(problems))


def shortest_name(path: str, others: Iterable[str]) -> str:
    """Return the shortest unique end of a path that is a valid identifier.

    Example:
        >>> shortest_name("my_param.alpha", ["my_param.alpha"]), shortest_name("a.x", ["a.x", "b.x"])
        ('alpha', 'a_x')
    """
    fitting = (end for end in reversed(path_ends(path)) if not identifier_problem(end))
    return next((end for end in fitting if attributes_named(end, others) == [path]), path)


def _odd(node: UncoveredNode) -> Iterator[UnsupportedOp]:
    """Yield a problem for each operand that a definition cannot describe."""
    for side, operands in (("input", node.inputs), ("output", node.outputs)):
        for place, operand in enumerate(operands):
            if operand is not None and operand.odd:
                yield UnsupportedOp(
                    f"{side} {place} ({operand.name!r}) of {node.operator} is {operand.odd}, but "
                    "definitions need tensors of numbers",
                    where=node.where,
                    fix="convert a part of the model without this operator",
                )


# ---------------------------------------------------------------------- parameters


def _params(nodes: Sequence[UncoveredNode]) -> dict[str, ParamDef]:
    """Return the parameters of an operator from all its nodes.

    One that a node does without is optional.

    Raises:
        UnsupportedOp: If an attribute is nothing that a parameter can be.
    """
    names = dict.fromkeys(name for node in nodes for name in node.attributes)
    return {(short := shortest_name(name, names)): _param(name, short, nodes) for name in names}


def _param(name: str, parameter: str, nodes: Sequence[UncoveredNode]) -> ParamDef:
    attributes = [(node, node.attributes[name]) for node in nodes if node.attributes.get(name, []) != []]
    kinds = {_kind(value): node for node, value in attributes}
    if "" in kinds:
        raise UnsupportedOp(
            f"attribute {name!r} of {nodes[0].operator} is a graph, several tensors, strings in a tensor "
            "or similar",
            where=kinds[""].where,
            fix="omit it from the model, or define the operator by a plugin: parameters are numbers, "
            "strings and tensors of numbers",
        )
    if "text" in kinds and len(kinds.keys() - {"text", "one"}):
        raise UnsupportedOp(
            f"attribute {name!r} of {nodes[0].operator} is text on some nodes and several numbers on others",
            where=kinds["text"].where,
            fix="give all nodes a text, or all nodes numbers",
        )
    values = [value for _, value in attributes]
    dtypes = _dtypes(values)
    words = f"Attribute {name!r}: {_values(values)}"
    if len(attributes) < len(nodes):
        words += f"; {len(attributes)} of {len(nodes)} nodes have this attribute"
    return ParamDef(
        parameter,
        mandatory=len(attributes) == len(nodes),
        dtypes=dtypes,
        rank=0 if STRING in dtypes else _rank(values),
        description=(DescriptionPart(f"{words}."),),
    )


def _kind(value: Any) -> str:
    """Return ``one``, ``list``, ``text`` or ``tensor``; "" for other values."""
    if isinstance(value, int | float):
        return "one"
    if isinstance(value, TensorData):
        return "tensor" if _tensor_type(value) is not None else ""
    items = value if isinstance(value, list) else [value]
    if all(isinstance(item, str) for item in items):
        return "text"
    return "list" if all(isinstance(item, int | float) for item in items) else ""


def _stored(dtype: DType) -> DType:
    """Return the type that a DLC stores for a type of a source model."""
    return _NARROWER.get(dtype, dtype)


def _tensor_type(value: TensorData) -> DType | None:
    try:
        return _stored(from_numpy(value.dtype))
    except TypeError:
        return None


def _dtypes(values: Sequence[Any]) -> tuple[DType, ...]:
    tensors = [dtype for value in values if isinstance(value, TensorData) and (dtype := _tensor_type(value))]
    plain = [value for value in values if not isinstance(value, TensorData)]
    elements = [item for value in plain for item in (value if isinstance(value, list) else [value])]
    numbers = [item for item in elements if not isinstance(item, str)]
    dtypes = (STRING,) if len(numbers) < len(elements) else ()
    if numbers or not (dtypes or tensors):
        dtypes = (_number_type(numbers), *dtypes)
    return tuple(dict.fromkeys((*tensors, *dtypes)))


def _number_type(numbers: Sequence[int | float]) -> DType:
    """Return the first type that can store all numbers; the default for no numbers."""
    if numbers and all(isinstance(item, bool) for item in numbers):
        return BOOL8
    if any(isinstance(item, float) for item in numbers):
        return FLOAT32
    least, most = min(numbers, default=0), max(numbers, default=0)
    fitting = (dtype for dtype in (INT32, UINT32) if bounds(dtype)[0] <= least and most <= bounds(dtype)[1])
    return next(fitting, INT64)


def _rank(values: Sequence[Any]) -> int | None:
    """Return the common number of axes; None if they differ or exceed 4.

    A number counts as a list of one.
    """
    ranks = {
        len(value.shape) if isinstance(value, TensorData) else int(isinstance(value, list))
        for value in values
    } or {1}
    ranks -= {0} if ranks == {0, 1} else set()
    (rank,) = ranks if len(ranks) == 1 else (None,)
    return rank if rank is not None and rank <= _MAX_RANK else None


def _values(values: Sequence[Any]) -> str:
    texts = dict.fromkeys(
        f"a tensor of {value.dtype}{list(value.shape)}" if isinstance(value, TensorData) else repr(value)
        for value in values
    )
    text = ", ".join(texts) or "an empty list"
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."


# ---------------------------------------------------------------------- inputs and outputs


@dataclass(frozen=True, slots=True)
class Place:
    """An input or output of all nodes of an operator.

    Attributes:
        operands: What is there.
        mandatory: Whether all nodes have it.
        repeated: Whether it is any number of tensors.
    """

    operands: tuple[Declared, ...]
    mandatory: bool
    repeated: bool = False


def places_of(rows: Sequence[Sequence[Declared | None]]) -> list[Place]:
    """Return the inputs or outputs of an operator, merged from its nodes.

    Where nodes have different numbers of operands, those from the first place on that are of one kind
    become a repeated one; those that are not become optional.  After an optional place all are.

    Args:
        rows: The operands of each node; None for an omitted one.

    Example:
        >>> x, y = Declared(name="x"), Declared(name="y")
        >>> def shown(*rows):
        ...     return [(len(place.operands), place.mandatory, place.repeated) for place in places_of(rows)]
        >>> shown([x, y], [x, y, x]), shown([x, None, y])
        ([(5, True, True)], [(1, True, False), (0, False, False), (1, False, False)])
    """
    rows = [_trimmed(row) for row in rows]
    least, most = min(map(len, rows), default=0), max(map(len, rows), default=0)
    first = _first_repeated(rows, least) if least != most else None
    places: list[Place] = []
    for index in range(most if first is None else first):
        column = [row[index] if index < len(row) else None for row in rows]
        operands = tuple(operand for operand in column if operand is not None)
        places.append(Place(operands, len(operands) == len(rows) and _all_mandatory(places)))
    if first is not None:
        rest = tuple(operand for row in rows for operand in row[first:] if operand is not None)
        places.append(Place(rest, least > first and _all_mandatory(places), repeated=True))
    return places


def _all_mandatory(places: Sequence[Place]) -> bool:
    return all(place.mandatory for place in places)


def _trimmed(row: Sequence[Declared | None]) -> Sequence[Declared | None]:
    while row and row[-1] is None:
        row = row[:-1]
    return row


def _first_repeated(rows: Sequence[Sequence[Declared | None]], least: int) -> int | None:
    """Return the place from which on all operands are of one kind, or None."""
    for first in range(least + 1):
        rest = [operand for row in rows for operand in row[first:]]
        operands = [operand for operand in rest if operand is not None]
        types = {_stored(operand.dtype) for operand in operands if operand.dtype is not None}
        alike = len(types) < 2 and len({operand.is_static for operand in operands}) < 2
        if len(operands) == len(rest) and alike:
            return first
    return None


def _tensor(
    name: str, place: Place, earlier: Mapping[str, tuple[DType, ...]], default: tuple[DType, ...], why: str
) -> tuple[TensorDef, str]:
    """Return the definition of an input or output, and its assumption as a text.

    Args:
        earlier: Data types of values that drafted operators make.
        default: Data types to assume if nothing states one.
        why: Why those, for people.
    """
    operands = place.operands
    stated = [_stored(operand.dtype) for operand in operands if operand.dtype is not None]
    previous = [dtype for operand in operands for dtype in earlier.get(operand.name, ())]
    because = "xdlc assumes the type of the previous operator's output" if previous else why
    assumed = "" if stated else f"nothing states the data type: {because}"
    ranks = {None if operand.shape is None else len(operand.shape) for operand in operands}
    (rank,) = ranks if len(ranks) == 1 else (None,)
    words = [f"In the model: {_examples(operands)}."] if operands else []
    words += [f"{assumed[0].upper()}{assumed[1:]}."] if assumed else []
    definition = TensorDef(
        name,
        mandatory=place.mandatory,
        dtypes=tuple(dict.fromkeys(stated or previous or default)),
        rank=rank if rank and rank <= _MAX_RANK else None,
        repeated=place.repeated,
        is_static=bool(operands) and all(operand.is_static for operand in operands),
        description=tuple(map(DescriptionPart, words)),
    )
    return definition, assumed


def _examples(operands: Sequence[Declared]) -> str:
    texts = list(dict.fromkeys(map(_example, operands)))
    more = f" and {len(texts) - _MAX_EXAMPLES} more" if len(texts) > _MAX_EXAMPLES else ""
    return ", ".join(texts[:_MAX_EXAMPLES]) + more


def _example(operand: Declared) -> str:
    dtype = operand.dtype.name if operand.dtype else "?"
    shape = "[...]" if operand.shape is None else shown(operand.shape)
    name = operand.name if len(operand.name) <= 40 else f"{operand.name[:37]}..."
    return f"{name!r} {dtype}{shape}"


# ---------------------------------------------------------------------- operators


class _Drafting:
    def __init__(
        self, package: str, model: str, same_shapes: bool, reals: tuple[DType, ...], backends: tuple[str, ...]
    ) -> None:
        self._package, self._model, self._same_shapes = package, model, same_shapes
        self._reals, self._backends = reals, backends
        self._made: dict[str, tuple[DType, ...]] = {}
        self.opdefs: list[tuple[str, OpDef]] = []
        self.notices: list[str] = []

    def add(self, name: str, nodes: Sequence[UncoveredNode]) -> list[XdlcError]:
        """Draft the operator of some nodes under a name; return the obstacle, if any."""
        first, count = nodes[0], len(self.notices)
        try:
            params = _params(nodes)
        except UnsupportedOp as problem:
            return [problem]
        inputs = self._tensors(nodes, "in", (FLOAT32,), "xdlc assumes float32")
        like = inputs[0].dtypes if inputs else (FLOAT32,)
        outputs = self._tensors(nodes, "out", like, "xdlc assumes the type of the first input")
        names = ", ".join(repr(node.name) for node in nodes[:_MAX_NODES])
        names += f" and {len(nodes) - _MAX_NODES} more" if len(nodes) > _MAX_NODES else ""
        words = f"Drafted from {self._model}: {first.operator}, node{'s' * (len(nodes) > 1)} {names}."
        order = "Axes have the model's order, unless a Layout states another order."
        definition = OpDef(
            name,
            self._package,
            tuple(map(self._storable, inputs)),
            tuple(map(self._storable, outputs)),
            params,
            (DescriptionPart(words), DescriptionPart(order)),
            backends=self._backends,
        )
        alone = Collection(self._package, first.domain, VERSION, (definition,), ())
        problems = check_collection(alone)  # only names can be wrong
        if problems:
            del self.notices[count:]
            fix = "rename the operator in the model, or write a plugin for the operator"
            text = f"so {first.operator} cannot have a definition"
            return [UnsupportedOp(f"{each.problem}, {text}", where=first.where, fix=fix) for each in problems]
        for node in nodes:
            for place, operand in enumerate(node.outputs):
                if operand is not None:
                    self._made[operand.name] = outputs[min(place, len(outputs) - 1)].dtypes
        self.opdefs.append((first.domain, definition))
        return []

    def _storable(self, tensor: TensorDef) -> TensorDef:
        """Return a float activation with all its possible data types."""
        if tensor.is_static or not any(dtype.is_float for dtype in tensor.dtypes):
            return tensor
        return replace(tensor, dtypes=tuple(dict.fromkeys((*tensor.dtypes, *self._reals))))

    def _tensors(
        self, nodes: Sequence[UncoveredNode], stem: str, default: tuple[DType, ...], why: str
    ) -> list[TensorDef]:
        operator, is_output = nodes[0].operator, stem == "out"
        tensors = []
        for i, place in enumerate(places_of([node.outputs if is_output else node.inputs for node in nodes])):
            definition, assumed = _tensor(f"{stem}[{i}]", place, self._made, default, why)
            if assumed:
                self.notices.append(f"{operator}: {definition.name}: {assumed}")
            tensors.append(self._shaped(definition, place, operator) if is_output else definition)
        return tensors

    def _shaped(self, output: TensorDef, place: Place, operator: str) -> TensorDef:
        """Return an output of a shape that is not always stated, and add a notice."""
        unknown = [operand.name for operand in place.operands if operand.shape is None]
        open_ones = [one.name for one in place.operands if one.shape is None or None in one.shape]
        if self._same_shapes and open_ones and len(open_ones) == len(place.operands):
            states = "states no shape" if open_ones[0] in unknown else "leaves dynamic dimensions"
            text = f"the model {states} of {open_ones[0]!r}: xdlc assumes the shape of the first input"
            self.notices.append(f"{operator}: {output.name}: {text}")
            part = DescriptionPart(f"{text[0].upper()}{text[1:]}.")
            return replace(output, text=_SAME_SHAPE, description=(*output.description, part))
        if unknown:
            self.notices.append(
                f"{operator}: {output.name}: the model states no shape of {unknown[0]!r}: write it into "
                "the draft (Shape/Text, xdlc_shape in JSON), or convert with a shape function"
            )
        return output

    def collections(self) -> list[Collection]:
        """Return a package, or one per domain if operators share a name."""
        shares: dict[str, list[OpDef]] = {}
        for domain, definition in self.opdefs:
            shares.setdefault(domain, []).append(definition)
        opdefs = [definition for _, definition in self.opdefs]
        if len({definition.name for definition in opdefs}) == len(opdefs):
            shares = {next(iter(shares)) if len(shares) == 1 else "": opdefs}
        return [self._collection(share, domain, i) for i, (domain, share) in enumerate(shares.items())]

    def _collection(self, opdefs: Sequence[OpDef], domain: str, index: int) -> Collection:
        package = f"{self._package}{index + 1}" if index else self._package
        named = tuple(replace(definition, package=package) for definition in opdefs)
        return Collection(package, domain, VERSION, named, ())
