"""Graph inputs fixed to values: each becomes an initializer, and what follows from it folds."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.converter.operators import protobuf
from xdlc.errors import StorageError, UsageError, XdlcError, nearest_names, raise_all

Array = Any  # numpy.ndarray
_SHOWN = 16  # elements of a value in notices and in the history
_FIX = "give a number, a list like [1,2,3], or the path of an .npy file"


def set_inputs(
    graph: Any, shapes: dict[str, tuple[int | None, ...]], values: Mapping[str, Any], where: str
) -> dict[str, str]:
    """Make initializers of the inputs that have values, and return each value in words, by name.

    Args:
        graph: ``GraphProto``, which is changed.
        shapes: Shapes of its inputs, None for open dimensions; those that have values are taken out.
        values: Values by input name: numbers, lists, arrays, paths of ``.npy`` files, or texts of these as
            JSON.  One number fills a shape whose dimensions are all known.
        where: Name of the model, for errors.

    Raises:
        UsageError: If there is no such input, or a value does not fit its data type or shape; several
            problems make a ProblemList.
        StorageError: If an ``.npy`` file cannot be read.
    """
    entries = {entry.name: entry for entry in graph.input}
    problems: list[XdlcError] = []
    said: dict[str, str] = {}
    for name, value in values.items():
        try:
            if name not in entries:
                raise UsageError(
                    f"there is no input {name!r}; the inputs are {', '.join(entries) or 'none'}",
                    fix=nearest_names(name, entries) or "use one of the names of the inputs",
                )
            array = _fitting(value, entries[name], _shape(graph, name, shapes))
        except XdlcError as problem:
            problem.where = ": ".join([where, f"--set_input {name}", *filter(None, [problem.where])])
            problems.append(problem)
            continue
        _store(graph, entries[name], array)
        shapes.pop(name, None)
        said[name] = _words(array)
    raise_all(problems, where=where)
    return said


def _shape(graph: Any, name: str, shapes: Mapping[str, Sequence[int | None]]) -> Sequence[int | None]:
    """Return the shape of an input, which may be an initializer's that it replaces."""
    if name in shapes:
        return shapes[name]
    return next((tuple(held.dims) for held in graph.initializer if held.name == name), ())


def _fitting(value: Any, entry: Any, shape: Sequence[int | None]) -> Array:
    """Return a value as an array of an input's data type and shape.

    Raises:
        UsageError: If it does not fit.
        StorageError: If its file cannot be read.
    """
    import numpy as np

    kind = entry.type.tensor_type.elem_type
    if not entry.type.HasField("tensor_type") or kind == protobuf.STRING:
        raise UsageError("the input is no tensor of numbers", fix="leave the flag out for it")
    given, dtype = _array(value), protobuf.numpy_dtype(kind)
    with np.errstate(all="ignore"):
        array = given.astype(dtype)
        is_whole = dtype.kind in "biu"
        held = array == given if is_whole else np.isinf(array.astype(np.float64)) == np.isinf(given)
    if not held.all():
        raise UsageError(
            f"{_words(given)} does not fit the input's data type, {dtype}",
            fix=f"give values that {dtype} holds",
        )
    fixed = [extent for extent in shape if extent is not None]
    if not array.ndim and len(fixed) == len(shape):
        array = np.full(fixed, array)
    fits = array.ndim == len(shape) and all(
        extent in (None, found) for extent, found in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ["N" if extent is None else extent for extent in shape]
        raise UsageError(
            f"the value has shape {list(array.shape)}, the input takes {wanted}".replace("'", ""),
            fix="give a value of that shape, or bind its dimensions, with -d for one, and give one number",
        )
    return array


def _array(value: Any) -> Array:
    import numpy as np

    if isinstance(value, str | os.PathLike) and os.fspath(value).endswith(".npy"):
        try:
            found = np.load(value, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            said = f"{os.fspath(value)} cannot be read: {getattr(error, 'strerror', None) or error}"
            raise StorageError(said, fix="check the path") from error
    else:
        try:
            found = np.asarray(json.loads(value) if isinstance(value, str) else value)
        except (ValueError, TypeError, RecursionError) as error:
            raise UsageError(f"{str(value)[:80]!r} is no value of numbers", fix=_FIX) from error
    if found.dtype.kind not in "biuf":
        raise UsageError(f"{str(value)[:80]!r} is no value of numbers", fix=_FIX)
    return found


def _store(graph: Any, entry: Any, array: Array) -> None:
    """Put an initializer in the place of an input, or of the initializer that it has already."""
    for held in [held for held in graph.initializer if held.name == entry.name]:
        graph.initializer.remove(held)
    graph.input.remove(entry)
    tensor = graph.initializer.add()
    tensor.name, tensor.data_type = entry.name, entry.type.tensor_type.elem_type
    tensor.dims.extend(array.shape)
    tensor.raw_data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _words(array: Array) -> str:
    """Return a value as a text, a large one by its type and shape."""
    if array.size <= _SHOWN:
        return json.dumps(array.tolist())
    return f"{array.dtype} {list(array.shape)}"
