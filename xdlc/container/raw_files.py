"""Recipes for raw files of graph inputs and outputs, in a line of Python each."""

from __future__ import annotations

import json

from xdlc.ir import ScaleOffset, Tensor
from xdlc.ir.dtype import FLOAT32


def recipes(tensor: Tensor, *, reads: bool = False) -> dict[str, str]:
    """Return a numpy expression for each form of a tensor's raw file.

    Files are little-endian, row-major and headerless.  Under the key ``float32`` is the form that the tools
    read and write by default whatever the tensor's own type is, under ``native`` that of
    ``--use_native_input_files`` and, for integers and bools, of inputs without it.  The default comes first.

    Args:
        tensor: An input or output of a graph.
        reads: Whether the file is to be read instead of written.

    Example:
        >>> recipes(Tensor("x", (1, 3), FLOAT32))
        {'float32': 'array.astype("<f4").tofile("x.raw")'}
        >>> recipes(Tensor("x", (1, 3), FLOAT32), reads=True)
        {'float32': 'numpy.fromfile("x.raw", "<f4").reshape((1, 3))'}
    """
    forms = {"float32": _read(tensor, "<f4", ".raw") if reads else _write(tensor, "array", "<f4")}
    scale = tensor.encoding if isinstance(tensor.encoding, ScaleOffset) else None
    known = scale is not None or not (tensor.dtype.is_fixed or tensor.encoding)
    if tensor.dtype is FLOAT32 or not known or tensor.dtype.bits < 8 or tensor.dtype.name == "bfloat16":
        return forms
    code = tensor.dtype.numpy.str.replace("|", "")
    if reads:
        stored = _read(tensor, code, "_native.raw")
        forms["native"] = f"({stored}.astype(float) + {scale.offset}) * {scale.scale!r}" if scale else stored
    else:
        forms["native"] = _write(tensor, _stored(tensor, scale) if scale else "array", code)
        if tensor.dtype.is_integer or tensor.dtype.kind == "bool":
            return {"native": forms["native"], **forms}
    return forms


def _write(tensor: Tensor, values: str, code: str) -> str:
    return f'{values}.astype("{code}").tofile({_quoted(tensor.name + ".raw")})'


def _read(tensor: Tensor, code: str, ending: str) -> str:
    values = f'numpy.fromfile({_quoted(tensor.name + ending)}, "{code}")'
    if len(tensor.dynamic_axes) > 1:
        return values
    shape = tuple(-1 if axis in tensor.dynamic_axes else dim for axis, dim in enumerate(tensor.shape))
    return f"{values}.reshape({shape})"


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _stored(tensor: Tensor, encoding: ScaleOffset) -> str:
    bits = encoding.bits or tensor.dtype.bits
    low, high = (
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if tensor.dtype.is_signed else (0, (1 << bits) - 1)
    )
    return f"numpy.clip(numpy.rint(array / {encoding.scale!r}) - ({encoding.offset}), {low}, {high})"
