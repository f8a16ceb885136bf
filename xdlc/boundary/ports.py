"""Requests of users for inputs and outputs, read from options by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from xdlc.boundary import colour, datatype, layout, resizing, scaling
from xdlc.errors import UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import Model, ScaleOffset
from xdlc.ir.dtype import UINT8, DType

KINDS = ("image", "default", "opaque")
"""Kinds of inputs: ``opaque`` ones are passed on as they are."""


@dataclass(frozen=True, slots=True)
class Port:
    """Everything that a user requests of one input or output.

    Attributes:
        name: Its name.
        is_input: Whether it is an input.
        layout: What the axes are in the source; None: what the model states.
        desired_layout: What the axes are that callers want; None: those of the source.
        dtype: Type that callers want; None: that of the graph.  uint8 by default of NV12 and NV21.
        quantization: Encoding of a fixed-point ``dtype``; None: that of the graph.
        kind: ``image``, ``default`` or ``opaque``.
        colours: Colour encodings of what callers have, and of what the network takes.
        mean: What is subtracted: one number, or one for each channel.
        scale: What the difference is multiplied with: one number, or one for each channel.
        resize: Size that callers have, before it is resized.
        crop: Size that callers have, and where the part that is used starts.
    """

    name: str
    is_input: bool
    layout: str | None = None
    desired_layout: str | None = None
    dtype: DType | None = None
    quantization: ScaleOffset | None = None
    kind: str = "default"
    colours: tuple[str, str] | None = None
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    resize: resizing.Resize | None = None
    crop: resizing.Crop | None = None

    @property
    def is_image(self) -> bool:
        """Whether a step is requested that sees pixels: one of colours, scales or sizes."""
        source, target = self.colours or ("", "")
        return bool(source != target or self.mean or self.scale or self.resize or self.crop)


Ports: TypeAlias = "dict[str, Port]"


class _Option(NamedTuple):
    """An option, as a field of a port.

    Attributes:
        field: Name of the field.
        is_input: Whether it is one of inputs.
        parsed: Returns the field's value from that of the option; it raises UsageError.
    """

    field: str
    is_input: bool
    parsed: Callable[[Any], Any]


def _kind(value: str) -> str:
    if value not in KINDS:
        raise UsageError(f"{value!r} is no kind of input", fix=f"use one of {', '.join(KINDS)}")
    return value


OPTIONS = {
    "input_layout": _Option("layout", True, layout.parsed),
    "desired_input_layout": _Option("desired_layout", True, layout.parsed),
    "output_layout": _Option("layout", False, layout.parsed),
    "desired_output_layout": _Option("desired_layout", False, layout.parsed),
    "input_dtype": _Option("dtype", True, datatype.parsed_word),
    "output_dtype": _Option("dtype", False, datatype.parsed_word),
    "input_type": _Option("kind", True, _kind),
    "input_encoding": _Option("colours", True, colour.parsed),
    "input_mean": _Option("mean", True, scaling.parsed),
    "input_scale": _Option("scale", True, scaling.parsed),
    "input_resize": _Option("resize", True, resizing.parsed_resize),
    "input_crop": _Option("crop", True, resizing.parsed_crop),
}
"""What each option by name of a port sets."""


def requested(model: Model, options: Mapping[str, Any]) -> Ports:
    """Return what options request, by the name of the input or output.

    Args:
        model: The model, whose main graph has the names.
        options: Options as ``Options`` has them; values are texts of command lines too.

    Raises:
        UsageError: If a name or a value is not known; a ProblemList of all of them.
    """
    problems: list[XdlcError] = []
    ports: Ports = {}
    for name, option in OPTIONS.items():
        given = options.get(name) or {}
        if not isinstance(given, Mapping):
            problem = f"{name} is of type {type(given).__name__}"
            problems.append(UsageError(problem, fix="give a mapping {name: value}"))
            continue
        known = _names(model, option.is_input)
        for port, value in given.items():
            try:
                parsed = option.parsed(os.fspath(value) if isinstance(value, os.PathLike) else value)
            except UsageError as error:
                error.where = error.where or f"--{name} {port}"
                problems.append(error)
                continue
            if port not in known:
                problems.append(_unknown(name, port, known, model, option.is_input))
                continue
            held = ports.get(port, Port(port, option.is_input))
            ports[port] = replace(held, **{option.field: parsed})
    for port, held in ports.items():
        if held.colours and held.colours[0] in colour.PLANAR and held.dtype is None:
            ports[port] = replace(held, dtype=UINT8)
    problems += [problem for port in ports.values() for problem in _contradictions(port)]
    raise_all(problems)
    return ports


def _names(model: Model, is_input: bool) -> list[str]:
    return [tensor.name for tensor in (model.main.inputs if is_input else model.main.outputs)]


def _unknown(option: str, name: str, known: Sequence[str], model: Model, is_input: bool) -> UsageError:
    what, other = ("input", "output") if is_input else ("output", "input")
    fix = nearest_names(name, known) or f"{what}s: {', '.join(known)}"
    if name in _names(model, not is_input):
        fix = f"it is an {other}: {what}s are {', '.join(known)}"
    return UsageError(f"--{option} names {name!r}, no {what} of the model", fix=fix)


def _contradictions(port: Port) -> list[XdlcError]:
    """Return an error if an opaque input is to be changed."""
    if port.kind != "opaque" or not (port.is_image or port.desired_layout or port.dtype):
        return []
    changed = "its colours, scale or size" if port.is_image else "its layout or type"
    return [
        UsageError(
            f"input {port.name!r} is opaque, which is passed on as it is, but {changed} shall change",
            fix=f"omit --input_type {port.name} opaque, or what changes it",
        )
    ]
