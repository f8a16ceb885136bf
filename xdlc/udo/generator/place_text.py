"""What comments of generated code say of an input, output or parameter."""

from __future__ import annotations

from collections.abc import Iterator

from xdlc.udo.generator.cores import CPU
from xdlc.udo.generator.quoting import Quoted, c_comment
from xdlc.udo.generator.template_context import CoreView, Place

_LONGEST = 200


def place_text(place: Place, core: CoreView | None = None) -> Quoted:
    """Return one line for a comment: name, data types, shape, and what else there is to know."""
    text = f"{place.name}: {'; '.join(_facts(place, core))}"
    return c_comment(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}...")


def _facts(place: Place, core: CoreView | None) -> Iterator[str]:
    if place.values:
        yield "one of " + ", ".join(value.name for value in place.values)
    else:
        every = (dtype for types in place.types.values() for dtype in types)
        types = every if core is None else place.types_on(core)
        yield " or ".join(dict.fromkeys(dtype.name for dtype in types))
    if not place.is_scalar:
        yield _shape(place)
    if place.layout:
        yield place.layout
    if place.static:
        yield "data of the model"
    if place.repeated:
        yield "any number of them"
    if place.default is not None:
        yield f"default {place.default}{_filled(place, core)}"
    elif not place.mandatory:
        yield "optional"


def _filled(place: Place, core: CoreView | None) -> str:
    """Who gives an input its default: xdlc those of the CPU, kernels of accelerators themselves."""
    if place.kind == "param":
        return ""
    own = core is not None and core.name != CPU
    return ", for the kernel to fill in" if own else ", filled in where it is left out"


def _shape(place: Place) -> str:
    if place.extents:
        return f"[{', '.join(place.extents)}]"
    if place.rank is None:
        return "any rank"
    return f"rank {place.rank}"
