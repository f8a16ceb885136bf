"""What is known of the outputs of an op of a user's package, and by whom: functions, definition, model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from xdlc.converter.custom.issues import Issue
from xdlc.converter.values import Extents
from xdlc.errors import XdlcError
from xdlc.ir import DType
from xdlc.ir.dtype import UNDEFINED
from xdlc.opdefs import shape_text
from xdlc.opdefs.model import TensorDef, order_of
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.source_match import ShapeFunction, Udo

Source = Callable[[OpView], Sequence[TensorSpec | None] | None]
"""Tells what an op gives, as far as it knows."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a source model states of a value.

    Attributes:
        shape: Extents in the source's axis order, None for an open one; None if even the rank is open.
        dtype: Data type, None if it is not stated.
        read: Whether something reads the value; False for an output that is left out.
        is_outdated: Whether the source states a shape that goes with inputs of other shapes than they have.
    """

    shape: Extents | None = None
    dtype: DType | None = None
    read: bool = True
    is_outdated: bool = False


class Known(NamedTuple):
    """What is said of an output as the tensor lies; None for what is not."""

    shape: Extents | None
    dtype: DType | None


class Claim(NamedTuple):
    """What one source says of the outputs."""

    by: str
    outputs: Sequence[Known]


def claims_of(
    custom: Udo,
    view: OpView,
    places: Sequence[tuple[TensorDef, Declared]],
    shapes: Mapping[tuple[str, str], ShapeFunction],
) -> tuple[list[Claim], list[Issue]]:
    """Return what each source tells of the outputs, and what goes wrong there.

    The order is that of trust: a shape function, the object that defines the op, its definition, the model.

    Args:
        custom: The op.
        view: The op with its inputs; its outputs are not looked at.
        places: The definition of each output, and what the model states of it.
        shapes: Shape functions by package and type.
    """
    issues: list[Issue] = []
    view = replace(view, outputs=tuple(_expected(place, stated) for place, stated in places))
    asked = [
        _asked(by, source, view, len(places), issues) for by, source in _sources(custom, shapes, len(places))
    ]
    stated = Claim("the model", [_lying(place, stated) for place, stated in places])
    return [*(claim for claim in asked if claim is not None), stated], issues


def _sources(
    custom: Udo, shapes: Mapping[tuple[str, str], ShapeFunction], count: int
) -> list[tuple[str, Source]]:
    """Return what tells of the outputs beside the model, the most explicit first."""
    definition = custom.definition
    found: list[tuple[str, Source]] = []
    own = shapes.get((definition.package, definition.name))
    if own is not None:
        found.append(("the shape function", own))
    if custom.hooks is not None:
        found.append((custom.source or "the plugin", custom.hooks.infer_shape_and_type))

    def by_text(op: OpView) -> Sequence[TensorSpec | None] | None:
        told = shape_text.infer(definition, op, count)
        # which types are allowed is looked at later: one that is alone may be that of a quantized model
        return told and [spec and replace(spec, dtype=UNDEFINED) for spec in told]

    found.append(("the definition", by_text))
    return found


def _asked(by: str, function: Source, view: OpView, count: int, issues: list[Issue]) -> Claim | None:
    """Return what a source tells; what goes wrong there is an issue."""
    try:
        said = function(view)
    except (XdlcError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, XdlcError):
            text = ": ".join(filter(None, (error.where, error.problem)))
        fix = error.fix if isinstance(error, XdlcError) else None
        whose = "" if isinstance(error, XdlcError) and error.where else f"{by} fails: "
        issues.append(Issue(f"{whose}{text}", fix or "correct it"))
        return None
    if said is None:
        return None
    if not all(spec is None or isinstance(spec, TensorSpec) for spec in said):
        issues.append(Issue(f"{by} gives {said!r}", "return a TensorSpec for each output, or None"))
        return None
    if len(said) != count:
        issues.append(Issue(f"{by} tells of {len(said)} outputs, the op has {count}", "correct it"))
        return None
    return Claim(by, [_known(spec) for spec in said])


def _known(spec: TensorSpec | None) -> Known:
    if spec is None:
        return Known(None, None)
    return Known(tuple(spec.shape), None if spec.dtype is UNDEFINED else spec.dtype)


def _expected(place: TensorDef, said: Declared) -> TensorSpec | None:
    """Return what the source states of an output, as shape functions see it; None if that is not all."""
    shape = _lying(place, said).shape
    if shape is None or said.dtype is None:
        return None
    return TensorSpec(shape, said.dtype, place.name, place.layout)


def _lying(place: TensorDef, said: Declared) -> Known:
    """Return what the source states of an output as the tensor lies."""
    shape = said.shape
    if shape is not None:
        try:
            shape = tuple(shape[axis] for axis in order_of(place.layout, len(shape))) or (1,)
        except ValueError:  # reported with the output
            shape = None
    return Known(shape, None)
