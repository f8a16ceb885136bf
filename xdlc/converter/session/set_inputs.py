"""Values of fixed graph inputs, which become constants of the model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from xdlc.errors import UsageError, XdlcError, nearest_names, raise_all
from xdlc.options import spell
from xdlc.runtime import npy

Array = Any  # numpy.ndarray
_SHOWN = 16  # elements of a value in notices and in the history
_FIX = "give a number, a list like [1,2,3], or the path of an .npy file"


def fixed_inputs(
    inputs: Mapping[str, Any],
    shapes: Mapping[str, Sequence[int | None]],
    values: Mapping[str, Any],
    where: str,
) -> dict[str, Array]:
    """Return the values of the fixed inputs, as arrays of their types and shapes.

    Args:
        inputs: numpy dtype of each input by name; None for one that is no tensor of numbers.
        shapes: Shapes of the inputs, None for dynamic dimensions; an input without takes any shape.
        values: Values by input name: numbers, lists, arrays, paths of ``.npy`` files, or texts of these as
            JSON.  One number fills a shape whose dimensions are all known.
        where: Name of the model, for errors.

    Raises:
        UsageError: If there is no such input, or a value does not fit its data type or shape; several
            problems make a ProblemList.
        StorageError: If an ``.npy`` file cannot be read.
    """
    problems: list[XdlcError] = []
    arrays: dict[str, Array] = {}
    for name, value in values.items():
        try:
            if name not in inputs:
                raise UsageError(
                    f"there is no input {name!r}; the inputs are {', '.join(inputs) or 'none'}",
                    fix=nearest_names(name, inputs) or "use one of the names of the inputs",
                )
            arrays[name] = _fitting(value, inputs[name], shapes.get(name))
        except XdlcError as problem:
            option = f"{spell('set_inputs')} {quote(name)}"
            problem.where = ": ".join([where, option, *filter(None, [problem.where])])
            problems.append(problem)
    raise_all(problems, where=where)
    return arrays


def _fitting(value: Any, dtype: Any, shape: Sequence[int | None] | None) -> Array:
    """Return a value as an array of an input's data type and shape.

    Raises:
        UsageError: If it does not fit.
        StorageError: If its file cannot be read.
    """
    import numpy as np

    if dtype is None:
        raise UsageError("the input is no tensor of numbers", fix="omit the flag for it")
    stated = _array(value)
    if stated.ndim and shape is not None:
        _check_shape(stated.shape, shape)  # before values are read from a file
    with np.errstate(all="ignore"):
        array = stated.astype(dtype)
        is_whole = dtype.kind in "biu"
        held = array == stated if is_whole else np.isinf(array.astype(np.float64)) == np.isinf(stated)
    if not held.all():
        raise UsageError(
            f"{in_words(stated)} does not fit the input's data type, {dtype}",
            fix=f"give values that {dtype} holds",
        )
    if shape is not None and not array.ndim and None not in shape:
        return np.full(shape, array)
    if shape is not None:
        _check_shape(array.shape, shape)
    return array


def _check_shape(sizes: Sequence[int], shape: Sequence[int | None]) -> None:
    """Check that a value has the shape of an input; None is a dynamic dimension."""
    if len(sizes) == len(shape) and all(
        dim in (None, found) for dim, found in zip(shape, sizes, strict=True)
    ):
        return
    wanted = ["N" if dim is None else dim for dim in shape]
    raise UsageError(
        f"the value has shape {list(sizes)}, the input takes {wanted}".replace("'", ""),
        fix="give a value of that shape, or bind its dimensions, and give one number",
    )


def _array(value: Any) -> Array:
    import numpy as np

    if isinstance(value, str | os.PathLike) and os.fspath(value).endswith(".npy"):
        array = npy.load(Path(value))
    else:
        try:
            array = np.asarray(json.loads(value) if isinstance(value, str) else value)
        except (ValueError, TypeError, RecursionError) as error:
            raise UsageError(f"{str(value)[:80]!r} is no value of numbers", fix=_FIX) from error
    if array.dtype.kind not in "biuf":
        raise UsageError(f"{str(value)[:80]!r} is no value of numbers", fix=_FIX)
    return array


def in_words(array: Array) -> str:
    """Return a value as a text, a large one by its type and shape."""
    if array.size <= _SHOWN:
        return json.dumps(array.tolist())
    return f"{array.dtype} {list(array.shape)}"
