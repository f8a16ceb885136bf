"""Options for inputs and outputs, as tools and the Python interface have them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple, TypeAlias, TypedDict

Words: TypeAlias = str | Sequence[str]
Numbers: TypeAlias = str | float | Sequence[float]


class Options(TypedDict, total=False):
    """Options for inputs and outputs, by name each; docs/boundary.md describes them.

    Attributes:
        input_layout: What the axes of an input of the source are, like ``NCHW``.
        desired_input_layout: What the axes are that callers want, like ``NHWC``.
        output_layout: What the axes of an output of the source are.
        desired_output_layout: What the axes of an output are that callers want.
        input_dtype: Type in which callers have an input, like ``uint8``.
        output_dtype: Type in which callers want an output.
        input_type: Kind of an input: ``image``, ``default`` or ``opaque``.
        input_encoding: Colours that callers have, and those of the network: ``("nv12", "rgb")``.
        input_mean: Numbers that are subtracted: one, or one for each channel.
        input_scale: Numbers that the difference is multiplied with: one, or one for each channel.
        input_resize: Height and width that callers have, and ``bilinear`` or ``nearest``.
        input_crop: Height and width that callers have, of which the centre is used; or top, left, height and
            width, where the part used starts at top and left.
        preserve_io: What stays as in the source, whatever else is requested: True; or ``layout`` or
            ``datatype``, also followed by names; or a list of such texts.
        custom_io: Custom I/O file of SNPE and QNN, which overrides ``preserve_io``.
        config: Configuration of qairt-converter.
    """

    input_layout: Mapping[str, str]
    desired_input_layout: Mapping[str, str]
    output_layout: Mapping[str, str]
    desired_output_layout: Mapping[str, str]
    input_dtype: Mapping[str, str]
    output_dtype: Mapping[str, str]
    input_type: Mapping[str, str]
    input_encoding: Mapping[str, Words]
    input_mean: Mapping[str, Numbers]
    input_scale: Mapping[str, Numbers]
    input_resize: Mapping[str, str | Sequence[Any]]
    input_crop: Mapping[str, str | Sequence[int]]
    preserve_io: bool | str | Sequence[str]
    custom_io: str | PathLike[str]
    config: str | PathLike[str]


CHANGES = frozenset(Options.__annotations__) - {"input_layout", "output_layout"}
"""Options that change something; the others describe the source."""


class Request(NamedTuple):
    """A request for one input or output.

    Attributes:
        where: The option or the place in a file.
        name: Name of the input or output.
        is_input: Whether it is an input; None if it may be either.
        field: Field of a port.
        value: Its value, as text or parsed.
    """

    where: str
    name: str
    is_input: bool | None
    field: str
    value: Any


def words(options: Options) -> dict[str, str]:
    """Return options as texts, for the history of a model; files without their folders."""
    found: dict[str, str] = {}
    for name, given in options.items():
        if isinstance(given, Mapping):
            found |= {f"{name} {port}": _text(value) for port, value in given.items()}
        else:
            is_file = name in ("custom_io", "config")
            found[name] = os.path.basename(str(given)) if is_file else _text(given)
    return found


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
