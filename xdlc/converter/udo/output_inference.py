"""Output inference of UDOs by shape function, definition, or source model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from xdlc.converter.udo.binding import converted, is_allowed, is_quantized_only
from xdlc.converter.values import Dims, Order, Spec
from xdlc.errors import XdlcError
from xdlc.ir import DType
from xdlc.ir.dtype import FLOAT32, UINT8, UINT16, UNDEFINED, from_numpy
from xdlc.opdefs import shape_text
from xdlc.opdefs.model import OpDef, TensorDef, order_of
from xdlc.opdefs.op_params import Issue
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.shape_text import why_unknown
from xdlc.opdefs.source_match import Declared, ShapeFunction, Udo
from xdlc.options import spell

_SHAPE_FIX = (
    "state it as Shape/Text of the output (xdlc_shape in JSON) or in the model (value_info in ONNX), or "
    "pass a shape function with {} FILE.py; xdlc udo-package-generator writes a skeleton"
)
_HOOK_FIX = (
    "return the shape from infer_shape_and_type of the plugin, or state it in the model (value_info in ONNX)"
)


Source = Callable[[OpView], Sequence[TensorSpec | None] | None]
"""Infers the outputs of an op, None for an unknown one."""


@dataclass(frozen=True, slots=True)
class InferredOutput:
    """An inferred output of an op.

    Attributes:
        shape: Dimensions in the tensor's layout, None for a dynamic one.
        dtype: Data type of the op's output.
        wanted: Data type that the source has for it.
        order: Axis i of the tensor is source axis ``order[i]``; empty for a scalar, stored as [1].
        guess: Notice on a data type that nothing states; empty for one that is stated.
    """

    shape: Dims
    dtype: DType
    wanted: DType
    order: Order
    guess: str = ""


def infer_outputs(
    custom: Udo,
    view: OpView,
    declared: Sequence[Declared],
    shapes: Mapping[tuple[str, str], ShapeFunction],
    inferred: Callable[[], Mapping[str, Spec]],
) -> tuple[list[InferredOutput], list[Issue]]:
    """Return the outputs of an op, and the unknown or contradictory ones as issues.

    A shape function for the op comes first, then its plugin, then its definition, then the model; each adds
    what those before leave open, and must not contradict them.

    A data type that none of them states is that of the first input if the definition allows it or any, or
    else the only one that it allows.  It is a guess if the definition allows others.

    Dims may stay open; they are then only known when the graph runs.

    Args:
        view: The op with its inputs; its outputs are ignored.
        declared: Shape and type in the source of each output of the node.
        shapes: Shape functions by package and type.
        inferred: Returns shapes that the source's own inference finds, by name.
    """
    places, issues = _places(custom.definition, declared)
    view = replace(view, outputs=tuple(_expected(place, source) for place, source in places))
    claims: list[tuple[str, list[Declared]]] = []
    failures: list[Issue] = []
    for by, function in _sources(custom, shapes, len(places)):
        answer = _answer(by, function, view, len(places))
        if isinstance(answer, Issue):
            failures.append(answer)
        elif answer is not None:
            claims.append((by, answer))
    if failures:  # what is missing now is what these would have stated
        return [], [*issues, *failures]
    if any(
        source.shape is None and all(outputs[index].shape is None for _, outputs in claims)
        for index, (_, source) in enumerate(places)
    ):
        places = [(place, _with_inferred(source, inferred())) for place, source in places]
    claims.append(("the model", [_in_layout(place, source) for place, source in places]))
    results = [
        _result(index, place, source, custom, view, [(by, outputs[index]) for by, outputs in claims])
        for index, (place, source) in enumerate(places)
    ]
    issues += [result for result in results if isinstance(result, Issue)]
    return [result for result in results if isinstance(result, InferredOutput)], issues


def _places(
    definition: OpDef, declared: Sequence[Declared]
) -> tuple[list[tuple[TensorDef, Declared]], list[Issue]]:
    """Return each output's definition with its shape and type in the source."""
    outputs, stated, issues = definition.outputs, list(declared), list[Issue]()
    while stated and not stated[-1].read:
        stated.pop()
    most = len(stated) if outputs and outputs[-1].repeated else len(outputs)
    if len(stated) > most:
        text = f"the node has {len(stated)} outputs, the definition has {most}"
        fix = "add the outputs to the definition, or mark its last output as Repeated"
        issues.append(Issue(text, fix))
    omitted = takewhile(lambda place: place.mandatory, outputs[len(stated) :])
    stated += [Declared(read=False) for _ in omitted]
    return [
        (outputs[min(index, len(outputs) - 1)], source) for index, source in enumerate(stated[:most])
    ], issues


def _with_inferred(source: Declared, specs: Mapping[str, Spec]) -> Declared:
    """Return an output with the shape and type that the source's own inference finds."""
    spec = specs.get(source.name)
    if source.shape is not None or spec is None or spec.shape is None:
        return source
    dtype = from_numpy(spec.dtype) if source.dtype is None and spec.dtype is not None else source.dtype
    return replace(source, shape=spec.shape, dtype=dtype)


def _sources(
    custom: Udo, shapes: Mapping[tuple[str, str], ShapeFunction], count: int
) -> Iterator[tuple[str, Source]]:
    """Yield the sources of shapes besides the model, the most explicit first."""
    definition = custom.definition
    own = shapes.get((definition.package, definition.name))
    if own is not None:
        yield "the shape function", own
    if custom.infer_shape_and_type is not None:
        yield custom.source or "the plugin", custom.infer_shape_and_type

    def by_text(op: OpView) -> Sequence[TensorSpec | None] | None:
        specs = shape_text.infer(definition, op, count)
        # allowed types are checked later: a single one may be that of a quantized model
        return specs and [spec and replace(spec, dtype=UNDEFINED) for spec in specs]

    yield "the definition", by_text


def _answer(by: str, function: Source, view: OpView, count: int) -> list[Declared] | Issue | None:
    """Return the outputs by a source; its failure is an issue."""
    try:
        results = function(view)
    except XdlcError as error:
        text = ": ".join(filter(None, (error.where, error.problem)))
        return Issue(text if error.where else f"{by} fails: {text}", error.fix or f"correct {by}")
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        return Issue(f"{by} fails: {type(error).__name__}: {error}", f"correct {by}")
    if results is None:
        return None
    if not all(spec is None or isinstance(spec, TensorSpec) for spec in results):
        return Issue(f"{by} returns {results!r}", "return a TensorSpec for each output, or None")
    if len(results) != count:
        return Issue(f"{by} returns {len(results)} outputs, but the op has {count}", f"correct {by}")
    return [
        Declared()
        if spec is None
        else Declared(tuple(spec.shape), None if spec.dtype is UNDEFINED else spec.dtype)
        for spec in results
    ]


def _result(
    index: int,
    place: TensorDef,
    source: Declared,
    custom: Udo,
    view: OpView,
    claims: Sequence[tuple[str, Declared]],
) -> InferredOutput | Issue:
    """Return an output, or its issue."""
    name = f"output {index} ({place.name!r})"
    shapes = [(by, known.shape) for by, known in claims if known.shape is not None]
    if source.shape is None and not shapes:
        left = "" if source.read else ", which the model omits,"
        if source.is_outdated:
            left = ", which the model states for inputs of other shapes,"
        why = why_unknown(custom.definition, view, place)
        fix = (_SHAPE_FIX if not custom.is_plugin else _HOOK_FIX).format(spell("converter_op_package_lib"))
        return Issue(f"the shape of {name}{left} is not known{why and f': {why}'}", fix)
    try:
        order = order_of(place.layout, len(shapes[0][1] if source.shape is None else source.shape))
    except ValueError as error:
        return Issue(f"{name}: {error}", "state another layout in the definition, or omit the layout")
    shape, clash = _merged(shapes)
    if clash:
        return Issue(f"{name} is {clash}", "correct the shape function, the definition or the model")
    stated = [
        (by, known.dtype)
        for by, known in claims
        if known.dtype and not _quantized(known.dtype, place, source)
    ]
    dtype = stated[0][1] if stated else _usual(place, source, view)
    clash = _clash(place, source, dtype, stated)
    if dtype is None or clash:
        return Issue(f"{name} {clash}", "correct the data type, or write this type in the definition")
    guess = _guess(name, place, dtype) if source.dtype is None and not stated else ""
    return InferredOutput(shape, dtype, source.dtype or dtype, order, guess)


def _guess(name: str, place: TensorDef, dtype: DType) -> str:
    """Return the notice on a type that was chosen among several."""
    kinds = {FLOAT32 if each.is_fixed or each.is_float else each for each in place.dtypes}
    if FLOAT32 in kinds:  # beside floats, SNPE's names of bytes denote quantized types
        kinds -= {UINT8, UINT16}
    if len(kinds) < 2:
        return ""
    return (
        f"nothing states the data type of {name}, which may be {_one_of(place.dtypes)}: xdlc assumes "
        f"{dtype.name}; state it in the model (value_info in ONNX), or add a shape function"
    )


def _merged(claims: Sequence[tuple[str, Dims]]) -> tuple[Dims, str]:
    """Return the dimensions that claims state, and the first contradiction."""
    first, shape = claims[0]
    for by, dims in claims[1:]:
        fits = len(dims) == len(shape) and all(
            a is None or b is None or a == b for a, b in zip(shape, dims, strict=False)
        )
        if not fits:
            return shape, f"{shape_text.shown(shape)} for {first}, but {shape_text.shown(dims)} for {by}"
        shape = tuple(a if a is not None else b for a, b in zip(shape, dims, strict=True))
    return shape, ""


def _quantized(dtype: DType, place: TensorDef, source: Declared) -> bool:
    """Return whether a type only states how a quantizer will store a float output."""
    return dtype.is_fixed or (source.dtype is FLOAT32 and is_quantized_only(place.dtypes))


def _usual(place: TensorDef, source: Declared, view: OpView) -> DType | None:
    """Return the type of an output according to source and definition."""
    if source.dtype is not None:
        fits = is_allowed(source.dtype, place.dtypes)
        return source.dtype if fits else converted(source.dtype, place.dtypes)
    first = next((spec.dtype for spec in view.inputs if spec is not None), None)
    if first is not None and is_allowed(first, place.dtypes):
        return first
    if place.dtypes and all(dtype.is_fixed or dtype is FLOAT32 for dtype in place.dtypes):
        return FLOAT32
    return place.dtypes[0] if len(place.dtypes) == 1 else None


def _clash(
    place: TensorDef, source: Declared, dtype: DType | None, stated: Sequence[tuple[str, DType]]
) -> str:
    """Return the problem with the type of an output; "" if it is right."""
    names = _one_of(place.dtypes) or "any"
    if dtype is None:
        found = f"is {source.dtype.name} in the model" if source.dtype else "has no data type in the model"
        return f"{found}, and {names} in the definition"
    for by, other in stated:
        if other is not dtype:
            return f"is {dtype.name} for {stated[0][0]}, but {other.name} for {by}"
    if not is_allowed(dtype, place.dtypes):
        return f"is {dtype.name} for {stated[0][0]}, but {names} in the definition"
    if source.dtype is not None and not _converts(dtype, source.dtype):
        return f"is {dtype.name} for {stated[0][0]}, but {source.dtype.name} in the model"
    return ""


def _one_of(dtypes: Sequence[DType]) -> str:
    return " or ".join(each.name for each in dtypes)


def _converts(dtype: DType, wanted: DType) -> bool:
    """Return whether a type is, or converts to, that of the source."""
    return dtype is wanted or converted(wanted, [dtype]) is dtype or converted(dtype, [wanted]) is wanted


def _expected(place: TensorDef, source: Declared) -> TensorSpec | None:
    """Return an output as the source states it; None if it is incomplete."""
    shape = _in_layout(place, source).shape
    if shape is None or source.dtype is None:
        return None
    return TensorSpec(shape, source.dtype, place.name, place.layout)


def _in_layout(place: TensorDef, source: Declared) -> Declared:
    """Return the shape of an output as the source states it, in the tensor's layout."""
    shape = source.shape
    if shape is not None:
        try:
            shape = tuple(shape[axis] for axis in order_of(place.layout, len(shape))) or (1,)
        except ValueError:  # reported with the output
            shape = None
    return Declared(shape)
