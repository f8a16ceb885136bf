"""Differences of two tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdlc.content.encodings import in_words
from xdlc.diff.change import Change, differ, shown, shown_pair
from xdlc.diff.data import figures, real_values, same_bytes
from xdlc.ir import Encoding, Tensor
from xdlc.lazy import is_installed

FEW = 16
"""Elements of a tensor whose values a difference shows."""


def tensor_changes(
    before: Tensor, after: Tensor, place: str, *, roles: bool = True, values: bool = True
) -> Iterator[Change]:
    """Yield the differences of two tensors, with those of their elements.

    Args:
        before: Tensor of the first model.
        after: Tensor of the second model.
        place: The tensor in words, like ``output 0 'y'``.
        roles: Whether roles are compared.
        values: Whether elements are compared.
    """
    if before.name != after.name:
        yield Change("tensor-names", f"name of {place}", before.name, after.name)
    yield from form_changes(before, after, place)
    if roles and before.role != after.role:
        yield Change("roles", f"role of {place}", before.role.name.lower(), after.role.name.lower())
    if values:
        yield from data_changes(before, after, place)


def form_changes(before: Tensor, after: Tensor, place: str) -> Iterator[Change]:
    """Yield the differences of shape, open axes, data type and encoding."""
    if before.shape != after.shape:
        yield Change("shapes", f"shape of {place}", _dims(before.shape), _dims(after.shape))
    if set(before.dynamic_axes) != set(after.dynamic_axes):
        axes = [shown(sorted(tensor.dynamic_axes)) for tensor in (before, after)]
        yield Change.between("dynamic-axes", f"open axes of {place}", axes)
    if before.dtype is not after.dtype:
        yield Change("dtypes", f"data type of {place}", before.dtype.name, after.dtype.name)
    if before.encoding != after.encoding and repr(before.encoding) != repr(after.encoding):
        yield encoding_change(before.encoding, after.encoding, f"encoding of {place}")


def _dims(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def data_changes(before: Tensor, after: Tensor, place: str, kind: str = "weights") -> Iterator[Change]:
    """Yield the difference of the elements of two tensors, if there is any."""
    first, second = before.data, after.data
    if first is None or second is None:
        if first is not second:
            texts = [None if data is None else f"{data.nbytes} bytes" for data in (first, second)]
            yield Change.between(kind, f"values of {place}", texts)
        return
    if before.size != after.size:
        counts = f"{before.size} elements", f"{after.size} elements"
        yield Change.between(kind, f"values of {place}", counts)
    elif not same_bytes(first, second):
        are_numbers = bool(before.dtype.bits and after.dtype.bits)
        difference = figures(before, after) if are_numbers and is_installed("numpy") else None
        if difference is None or difference.differing or before.dtype is after.dtype:
            few = are_numbers and before.size <= FEW and (difference is None or difference.differing > 0)
            values = shown_pair(map(real_values, (before, after))) if few else [None, None]
            text = "the stored bytes differ" if difference is None else difference.text
            size = None if difference is None else difference.as_dict()
            yield Change(kind, f"values of {place}", values[0], values[1], text, size)


def encoding_change(before: Encoding | None, after: Encoding | None, what: str) -> Change:
    """Return the difference of two encodings, with the parts that differ as a note."""
    note = None
    if before is not None and type(before) is type(after):
        note = "; ".join(_parts(before, after)) or None
    return Change("encodings", what, in_words(before), in_words(after), note)


def _parts(before: Encoding, after: Encoding) -> Iterator[str]:
    """Yield the parts of two encodings of one kind that differ."""
    for name in before.__dataclass_fields__:
        first, second = getattr(before, name), getattr(after, name)
        if repr(first) == repr(second) and not isinstance(first, Sequence):
            continue
        if isinstance(first, Sequence) and len(first) == len(second):
            pairs = [pair for pair in zip(first, second, strict=True) if differ(*pair)]
            text = f"{len(pairs)} of {len(first)} {name.replace('_', ' ')} differ"
            if pairs:
                yield text + (_largest(pairs) if "scales" in name else _range(pairs))
        elif isinstance(first, Sequence):
            yield f"{len(first)} {name.replace('_', ' ')} became {len(second)}"
        elif name == "scale":
            yield f"scale differs{_largest([(first, second)])}"
        else:
            yield f"{name.replace('_', ' ')} {_plain(first)} became {_plain(second)}"


def _plain(value: object) -> str:
    return "none" if value is None else str(value)


def _largest(pairs: Sequence[tuple[float, float]]) -> str:
    """Return the largest relative difference of scales in words, if it is finite."""
    share = max(
        abs(after - before) / abs(before) if before and math.isfinite(after - before) else math.inf
        for before, after in pairs
    )
    if math.isinf(share):
        return ""
    return f", by at most {share:.3g} times" if share >= 10 else f", by at most {share:.2%}"


def _range(pairs: Sequence[tuple[int, int]]) -> str:
    return f", by at most {max(abs(after - before) for before, after in pairs)}"
