"""Drafts definitions for operators of a model that nothing covers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdlc.errors import ModelError, UnsupportedOp, XdlcError, raise_all
from xdlc.ir.dtype import FLOAT32, DType
from xdlc.opdefs import check_collection
from xdlc.opdefs.elements import VERSION, Key
from xdlc.opdefs.model import Collection, DescriptionPart, OpDef, TensorDef
from xdlc.opdefs.uncovered import UncoveredNode
from xdlc.udo.config.drafting_params import drafted_params
from xdlc.udo.config.drafting_tensors import Place, drafted_tensor, places_of

_SAME_SHAPE = "same as in[0]"
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Draft:
    """Definitions to begin with.

    Attributes:
        collections: The packages: one, unless operators of several domains have one name.
        notices: What had to be assumed, and what is still to be said.
    """

    collections: tuple[Collection, ...]
    notices: tuple[str, ...]


def draft(nodes: Sequence[UncoveredNode], package: str, model: str, *, same_shapes: bool = False) -> Draft:
    """Return a definition for each operator, put together from all its nodes.

    Args:
        nodes: The nodes, in the order of the model.
        package: Name of the package.
        model: Name of the model, for descriptions.
        same_shapes: Whether outputs whose shape the model does not state in full get that of the first input.

    Raises:
        UnsupportedOp: If an operator takes or gives what no definition can say; all such are listed.
        ModelError: If a name is not one that a definition can have.
    """
    groups: dict[tuple[str, str], list[UncoveredNode]] = {}
    for node in nodes:
        groups.setdefault((node.domain, node.type), []).append(node)
    drafting = _Drafting(package, model, same_shapes)
    problems: list[XdlcError] = [problem for node in nodes for problem in _odd(node)]
    for group in groups.values():
        try:
            drafting.add(group)
        except UnsupportedOp as problem:
            problems.append(problem)
    raise_all(problems, where=model)
    collections = drafting.collections()
    raise_all([problem for held in collections for problem in _misnamed(held, nodes)], where=model)
    return Draft(tuple(collections), tuple(drafting.notices))


class _Drafting:
    def __init__(self, package: str, model: str, same_shapes: bool) -> None:
        self._package = package
        self._model = model
        self._same_shapes = same_shapes
        self._made: dict[str, tuple[DType, ...]] = {}
        self._opdefs: list[tuple[str, OpDef]] = []
        self.notices: list[str] = []

    def add(self, nodes: Sequence[UncoveredNode]) -> None:
        """Draft the operator that some nodes have in common."""
        first = nodes[0]
        inputs = self._tensors(nodes, "in", (FLOAT32,), "float32 is assumed")
        like = inputs[0].dtypes if inputs else (FLOAT32,)
        outputs = self._tensors(nodes, "out", like, "that of the first input is assumed")
        for node in nodes:
            for place, operand in enumerate(node.outputs):
                if operand is not None:
                    self._made[operand.name] = outputs[min(place, len(outputs) - 1)].dtypes
        names = ", ".join(repr(node.name) for node in nodes[:_SHOWN])
        names += f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
        words = f"Drafted from {self._model}: {first.operator}, node{'s' * (len(nodes) > 1)} {names}."
        order = "Axes are in the model's order, as long as no Layout says otherwise."
        definition = OpDef(
            first.type,
            self._package,
            tuple(inputs),
            tuple(outputs),
            drafted_params(nodes),
            (DescriptionPart(words), DescriptionPart(order)),
            backends=("CPU",),
        )
        self._opdefs.append((first.domain, definition))

    def _tensors(
        self, nodes: Sequence[UncoveredNode], stem: str, otherwise: tuple[DType, ...], why: str
    ) -> list[TensorDef]:
        operator, is_output = nodes[0].operator, stem == "out"
        places = places_of([node.outputs if is_output else node.inputs for node in nodes])
        found = []
        for i, place in enumerate(places):
            definition, assumed = drafted_tensor(f"{stem}[{i}]", place, self._made, otherwise, why)
            found.append(definition)
            if assumed:
                self.notices.append(f"{operator}: {definition.name}: {assumed}")
            if is_output:
                found[-1] = self._shaped(definition, place, operator)
        return found

    def _shaped(self, output: TensorDef, place: Place, operator: str) -> TensorDef:
        """Return an output whose shape the model does not always state, with what is to be said of it."""
        unknown = [operand.name for operand in place.operands if operand.shape is None]
        open_ones = [one.name for one in place.operands if one.shape is None or None in one.shape]
        if self._same_shapes and open_ones and len(open_ones) == len(place.operands):
            states = "states no shape" if open_ones[0] in unknown else "leaves open extents"
            text = f"the model {states} of {open_ones[0]!r}: the shape of the first input is assumed"
            self.notices.append(f"{operator}: {output.name}: {text}")
            part = DescriptionPart(f"{text[0].upper()}{text[1:]}.")
            return replace(output, text=_SAME_SHAPE, description=(*output.description, part))
        if unknown:
            self.notices.append(
                f"{operator}: {output.name}: the model states no shape of {unknown[0]!r}: write it into the "
                "draft (Shape/Text, xdlc_shape in JSON), or convert with a shape function"
            )
        return output

    def collections(self) -> list[Collection]:
        """Return one package, or one for each domain if operators of several have one name."""
        names = [definition.name for _, definition in self._opdefs]
        if len(set(names)) == len(names):
            domains = list(dict.fromkeys(domain for domain, _ in self._opdefs))
            opdefs = [definition for _, definition in self._opdefs]
            return [self._collection(opdefs, domains[0] if len(domains) == 1 else "", 0)]
        shares: dict[str, list[OpDef]] = {}
        for domain, definition in self._opdefs:
            shares.setdefault(domain, []).append(definition)
        return [self._collection(share, domain, i) for i, (domain, share) in enumerate(shares.items())]

    def _collection(self, opdefs: Sequence[OpDef], domain: str, index: int) -> Collection:
        package = f"{self._package}{index + 1}" if index else self._package
        named = tuple(replace(definition, package=package) for definition in opdefs)
        return Collection(package, domain, VERSION, named, ())


def _odd(node: UncoveredNode) -> Iterator[UnsupportedOp]:
    """Yield a problem for each operand that no definition can take."""
    for side, operands in (("input", node.inputs), ("output", node.outputs)):
        for place, operand in enumerate(operands):
            if operand is not None and operand.odd:
                yield UnsupportedOp(
                    f"{side} {place} ({operand.name!r}) of {node.operator} is {operand.odd}, "
                    "but definitions are of tensors of numbers",
                    where=node.where,
                    fix="keep this operator out of the part that is converted",
                )


def _misnamed(collection: Collection, nodes: Sequence[UncoveredNode]) -> Iterator[ModelError]:
    """Yield what breaks the rules of definitions; names are all that can."""
    firsts = {node.type: node.where for node in reversed(nodes)}
    places: dict[Key, str] = {("op", i): firsts[op.name] for i, op in enumerate(collection.opdefs)}
    for problem in check_collection(collection, places):
        yield ModelError(
            f"{problem.problem}, so that no definition can stand for it",
            where=problem.where,
            fix="rename it in the model" if problem.where else "give another --package_name",
        )
