"""Skeletons of definitions for operators of a model that nothing covers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdlc.errors import ModelError, UnsupportedOp, XdlcError, raise_all
from xdlc.ir.dtype import FLOAT32, UFIXED8, UFIXED16, DType
from xdlc.opdefs import check_collection
from xdlc.opdefs.backends import is_fixed_point
from xdlc.opdefs.model import Collection, DescriptionPart, OpDef, TensorDef
from xdlc.opdefs.source_match import UncoveredNode
from xdlc.opdefs.xml_elements import VERSION
from xdlc.options import spell
from xdlc.udo.config.skeleton_parts import Place, drafted_params, drafted_tensor, places_of, shortest_name

FLOAT_TYPES = (FLOAT32, UFIXED8, UFIXED16)
"""Data types of float inputs and outputs: floats, and those of a quantizer."""
BACKENDS = ("CPU",)
"""Default backends."""
_SAME_SHAPE = "same as in[0]"
_SHOWN = 3


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
    raise_all(_misnamed_package(package))
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


class _Drafting:
    def __init__(
        self,
        package: str,
        model: str,
        same_shapes: bool,
        float_types: tuple[DType, ...],
        backends: tuple[str, ...],
    ) -> None:
        self._package = package
        self._model = model
        self._same_shapes = same_shapes
        self._reals = float_types
        self._backends = backends
        self._made: dict[str, tuple[DType, ...]] = {}
        self.opdefs: list[tuple[str, OpDef]] = []
        self.notices: list[str] = []

    def add(self, name: str, nodes: Sequence[UncoveredNode]) -> list[XdlcError]:
        """Draft the operator of some nodes under a name; return the obstacle, if any."""
        first, count = nodes[0], len(self.notices)
        try:
            params = drafted_params(nodes)
        except UnsupportedOp as problem:
            return [problem]
        inputs = self._tensors(nodes, "in", (FLOAT32,), "float32 is assumed")
        like = inputs[0].dtypes if inputs else (FLOAT32,)
        outputs = self._tensors(nodes, "out", like, "that of the first input is assumed")
        names = ", ".join(repr(node.name) for node in nodes[:_SHOWN])
        names += f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
        words = f"Drafted from {self._model}: {first.operator}, node{'s' * (len(nodes) > 1)} {names}."
        order = "Axes are in the model's order, as long as no Layout states another."
        definition = OpDef(
            name,
            self._package,
            tuple(map(self._storable, inputs)),
            tuple(map(self._storable, outputs)),
            params,
            (DescriptionPart(words), DescriptionPart(order)),
            backends=self._backends,
        )
        if problems := _misnamed(definition, first):
            del self.notices[count:]
            return problems
        for node in nodes:
            for place, operand in enumerate(node.outputs):
                if operand is not None:
                    self._made[operand.name] = outputs[min(place, len(outputs) - 1)].dtypes
        self.opdefs.append((first.domain, definition))
        return []

    def _storable(self, tensor: TensorDef) -> TensorDef:
        """Return a float activation with all data types that it may have."""
        if tensor.is_static or not any(dtype.is_float for dtype in tensor.dtypes):
            return tensor
        return replace(tensor, dtypes=tuple(dict.fromkeys((*tensor.dtypes, *self._reals))))

    def _tensors(
        self, nodes: Sequence[UncoveredNode], stem: str, otherwise: tuple[DType, ...], why: str
    ) -> list[TensorDef]:
        operator, is_output = nodes[0].operator, stem == "out"
        places = places_of([node.outputs if is_output else node.inputs for node in nodes])
        tensors = []
        for i, place in enumerate(places):
            definition, assumed = drafted_tensor(f"{stem}[{i}]", place, self._made, otherwise, why)
            tensors.append(definition)
            if assumed:
                self.notices.append(f"{operator}: {definition.name}: {assumed}")
            if is_output:
                tensors[-1] = self._shaped(definition, place, operator)
        return tensors

    def _shaped(self, output: TensorDef, place: Place, operator: str) -> TensorDef:
        """Return an output of a shape that is not always stated, and add a notice."""
        unknown = [operand.name for operand in place.operands if operand.shape is None]
        open_ones = [one.name for one in place.operands if one.shape is None or None in one.shape]
        if self._same_shapes and open_ones and len(open_ones) == len(place.operands):
            states = "states no shape" if open_ones[0] in unknown else "leaves dynamic dimensions"
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
        """Return one package, or one per domain if operators share a name."""
        names = [definition.name for _, definition in self.opdefs]
        if len(set(names)) == len(names):
            domains = list(dict.fromkeys(domain for domain, _ in self.opdefs))
            opdefs = [definition for _, definition in self.opdefs]
            return [self._collection(opdefs, domains[0] if len(domains) == 1 else "", 0)]
        shares: dict[str, list[OpDef]] = {}
        for domain, definition in self.opdefs:
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
                    fix="keep this operator out of the part of the model that is converted",
                )


def _misnamed(definition: OpDef, node: UncoveredNode) -> list[XdlcError]:
    """Return what breaks the rules of definitions; names are all that can."""
    alone = Collection(definition.package, node.domain, VERSION, (definition,), ())
    return [
        UnsupportedOp(
            f"{problem.problem}, so that {node.operator} cannot have a definition",
            where=node.where,
            fix="rename it in the model, or define the operator by a plugin",
        )
        for problem in check_collection(alone)
    ]


def _misnamed_package(package: str) -> list[ModelError]:
    """Return why a package cannot have a name."""
    nothing = Collection(package, "", VERSION, (), ())
    return [
        ModelError(problem.problem, fix=f"give another {spell('package_name')}")
        for problem in check_collection(nothing, {("PackageName",): "name"})
        if problem.where
    ]
