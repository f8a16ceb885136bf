"""Options for inputs and outputs, as tools and the Python interface have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

Words: TypeAlias = "str | Sequence[str]"
Numbers: TypeAlias = "str | float | Sequence[float]"


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


def words(options: Options) -> dict[str, str]:
    """Return options as texts, for the history of a model."""
    return {
        f"{name} {port}": value if isinstance(value, str) else ",".join(map(str, _listed(value)))
        for name, given in options.items()
        if isinstance(given, Mapping)
        for port, value in given.items()
    }


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, Sequence) else [value]
