"""Formats of the inputs and outputs of a plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.errors import UsageError, nearest_names
from xdlc.ir.dtype import STRING, UINT32
from xdlc.opdefs.model import ParamDef, TensorDef
from xdlc.udo.plugin.base import Plugin
from xdlc.udo.plugin.formats import Format, find_format, plain_name

QUANTIZED = ("NC1HWC0",) * 6
"""Formats after those of the weights in lists for toolchains whose quantizer adds six constants."""


def weight_formats(plugin: Plugin, inputs: Sequence[TensorDef]) -> dict[str, Format]:
    """Return the formats of weights by input, without those of a quantizer.

    Raises:
        UsageError: If there is no such format or input, or their numbers differ.

    Example:
        >>> class Fast(Plugin):
        ...     formats, weight_formats = (["NC1HWC0"], ["NC1HWC0"]), ["FRACTAL_Z", "NC1HWC0"]
        >>> found = weight_formats(Fast(), [TensorDef(name, True, (), None) for name in "XWB"])
        >>> {name: format.name for name, format in found.items()}
        {'W': 'FRACTAL_Z', 'B': 'NC1HWC0'}
    """
    stated: Any = plugin.weight_formats
    names = [tensor.name for tensor in inputs]
    if isinstance(stated, Mapping):
        for name in stated:
            if name not in names:
                raise UsageError(
                    f"weight_formats names {name!r}, which is no input",
                    fix=nearest_names(str(name), names) or f"use names out of {', '.join(names)}",
                )
        return {name: find_format(format_name) for name, format_name in stated.items()}
    if isinstance(stated, str) or not isinstance(stated, Sequence):
        raise UsageError(f"weight_formats is {stated!r}", fix="give a list of formats, or formats by input")
    static: Sequence[str] = [tensor.name for tensor in inputs if tensor.is_static]
    static = static or _after_activations(plugin, names)[: len(weights_of(stated))]
    if len(stated) != len(static):
        stated = weights_of(stated)
    if stated and len(stated) != len(static):
        names_of = ", ".join(static) or "none"
        raise UsageError(
            f"weight_formats holds {len(stated)} formats for {len(static)} static inputs: {names_of}",
            fix=f"name one format for each, or give them by input: weight_formats = {{{names[-1]!r}: ...}}"
            if names
            else "omit them",
        )
    return {name: find_format(format_name) for name, format_name in zip(static, stated, strict=False)}


def weights_of(given: Sequence[str]) -> Sequence[str]:
    """Return formats without the six of a quantizer's constants at their end.

    Example:
        >>> weights_of(["FRACTAL_Z", *["NC1HWC0"] * 7])
        ['FRACTAL_Z', 'NC1HWC0']
    """
    end = tuple(map(plain_name, given[-len(QUANTIZED) :]))
    return given[: -len(QUANTIZED)] if end == QUANTIZED and len(given) > len(QUANTIZED) else given


def _after_activations(plugin: Plugin, names: Sequence[str]) -> Sequence[str]:
    """Return the inputs after those of ``formats``, which are weights."""
    try:
        activations = len(plugin.formats[0])
    except (TypeError, LookupError):  # all_formats reports it
        activations = 0
    return names[activations:] if activations else []


def all_formats(
    plugin: Plugin, inputs: Sequence[TensorDef], outputs: Sequence[TensorDef], weights: Mapping[str, Format]
) -> tuple[tuple[Format, ...], tuple[Format, ...]]:
    """Return the format of each input and of each output.

    Raises:
        UsageError: If there is no such format, or their numbers differ.
    """
    formats = plugin.formats
    if isinstance(formats, str) or not isinstance(formats, Sequence) or len(formats) != 2:
        raise UsageError(f"formats is {formats!r}", fix="give two lists, of inputs and of outputs")
    moving = [tensor.name for tensor in inputs if not tensor.is_static]
    into = _formats_by_name(formats[0], moving, "inputs")
    plain = find_format("ND")
    return (
        tuple(weights.get(tensor.name, into.get(tensor.name, plain)) for tensor in inputs),
        tuple(_formats_by_name(formats[1], [tensor.name for tensor in outputs], "outputs").values()),
    )


def _formats_by_name(formats: Any, names: Sequence[str], what: str) -> dict[str, Format]:
    if isinstance(formats, str) or not isinstance(formats, Sequence):
        raise UsageError(f"formats of {what} are {formats!r}", fix="give a list")
    if formats and len(formats) != len(names):
        raise UsageError(
            f"formats holds {len(formats)} of {what}, which are {len(names)}: {', '.join(names) or 'none'}",
            fix="name one format for each; those of weights belong into weight_formats",
        )
    found = [find_format(name) for name in formats or ["ND"] * len(names)]
    for format in found:
        if format.for_weights_only:
            raise UsageError(f"{format.name} is no format of {what}", fix="name it in weight_formats")
    return dict(zip(names, found, strict=True))


def weight_params(weight: str) -> tuple[ParamDef, ParamDef]:
    """Return the parameters of a packed weight: its format and former shape."""
    return (
        ParamDef(f"{weight}_format", False, (STRING,), 0),
        ParamDef(f"{weight}_shape", False, (UINT32,), 1),
    )
