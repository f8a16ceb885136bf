"""Default values of inputs and parameters, which definitions store as text.

================= ===========================================================================
Text              Value
================= ===========================================================================
``[[1], [2]]``     tensor, as nested lists; ``()``, ``[]`` and ``{}`` mean the same
``1`` ``-1.5``    scalar; ``inf`` and ``nan`` for floating-point types only
``0`` ``1``       bool for BOOL_8, as are ``true`` and ``false``
a name, a number  value of an enumeration, as its number
other             string
================= ===========================================================================

Which of them a text is follows from the data type: ``1`` is a string for STRING.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from xdlc.ir.dtype import STRING, DType
from xdlc.opdefs.model import ParamDef, TensorDef
from xdlc.opdefs.values import element, enumerator

Value = Any
"""int, float, bool, str, or nested lists of one of the first three."""

MAX_DEPTH = 8
MAX_TEXT = 1 << 20
"""Most characters of a default."""
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_TOKEN = re.compile(r"\s*([()\[\]{},]|[^()\[\]{},]+)")
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?([0-9]{1,40}(\.[0-9]{0,60})?|\.[0-9]{1,60})([eE][+-]?[0-9]{1,5})?")


def parse_default(text: str) -> Value:
    """Return the value of a text without a data type: tensor, scalar or string.

    Example:
        >>> parse_default("[[1, 2], [3, 4]]"), parse_default("{(1.5), (-2)}")
        ([[1, 2], [3, 4]], [[1.5], [-2]])
        >>> parse_default("1"), parse_default("1e-3"), parse_default("[1, two]"), parse_default("NEAREST")
        (1, 0.001, '[1, two]', 'NEAREST')
    """
    try:
        tree = _tree(text)
        _dims(tree)
        return _mapped(tree, _number)
    except ValueError:
        return text


def default_value(definition: TensorDef) -> Value | None:
    """Return the default of an input or parameter in the form of its data type.

    An enumeration results in its number.  None if there is no default.

    Raises:
        ValueError: If the text does not fit: expected and found, in words.

    Example:
        >>> from xdlc.ir import dtype as dt
        >>> default_value(ParamDef("axis", False, (dt.INT32,), 0, default="-1"))
        -1
        >>> default_value(ParamDef("flag", False, (dt.BOOL8,), 0, default="1"))
        True
        >>> default_value(ParamDef("mode", False, (dt.UINT32,), 0, default="B", enumeration=("A", "B")))
        1
    """
    text = definition.default
    if text is None:
        return None
    if len(text) > MAX_TEXT:
        raise ValueError(f"{_short(text)} of {len(text)} characters, expected at most {MAX_TEXT}")
    if definition.dtypes and all(dtype.kind == "string" for dtype in definition.dtypes):
        return text
    try:
        tree = _tree(text)
        dims = _dims(tree)
    except ValueError as error:
        if any(dtype.kind == "string" for dtype in definition.dtypes):
            return text
        raise ValueError(f"{_short(text)}: {error}") from None
    _check_rank(definition, dims, text)
    return _typed(definition, tree, text)


def _typed(definition: TensorDef, tree: Any, text: str) -> Value:
    if isinstance(definition, ParamDef) and definition.enumeration:
        names = definition.enumeration

        def number_of(word: str) -> int:
            return enumerator(names, word if word in names else _word(word))

        return _mapped(tree, partial(_explained, number_of))
    if not definition.dtypes:
        return parse_default(text)
    reasons = []
    for dtype in definition.dtypes:
        if dtype is STRING and isinstance(tree, str):
            return text
        try:
            return _mapped(tree, partial(_explained, partial(_element, dtype)))
        except ValueError as error:
            reasons.append(str(error))
    raise ValueError(reasons[0])


def _element(dtype: DType, word: str) -> Value:
    value = _word(word)
    if isinstance(value, float) and math.isinf(value):
        raise ValueError(f"which is too large for {dtype.name}")
    return element(dtype, value)


def _explained(read: Callable[[str], Value], word: str) -> Value:
    try:
        return read(word)
    except ValueError as error:
        raise ValueError(f"{_short(word)}, {error}") from None


def _check_rank(definition: TensorDef, dims: list[int], text: str) -> None:
    rank, stated_rank = definition.rank, len(dims)
    if 0 in dims:
        raise ValueError(f"{_short(text)}, an empty tensor, expected at least one element")
    if stated_rank == 0 and not isinstance(definition, ParamDef):
        return  # holds for every element, as in QNN's own definitions
    if rank is not None and rank != stated_rank:
        kinds = ["a scalar" if r == 0 else f"a tensor of rank {r}" for r in (rank, stated_rank)]
        raise ValueError(f"{_short(text)}, {kinds[1]}, expected {kinds[0]}")
    stated = definition.shape
    if len(stated) == stated_rank and any(
        word.isdigit() and int(word) != size for word, size in zip(stated, dims, strict=True)
    ):
        raise ValueError(f"{_short(text)} of shape {dims}, expected {definition.text}")


def _dims(tree: Any) -> list[int]:
    """Return the dimensions of nested lists."""
    dims: list[int] = []
    level = [tree]
    while any(isinstance(item, list) for item in level):
        if not all(isinstance(item, list) for item in level):
            raise ValueError("its rows differ in depth")
        if len({len(item) for item in level}) > 1:
            raise ValueError("its rows differ in length")
        dims.append(len(level[0]))
        level = [item for row in level for item in row]
    return dims


def _mapped(tree: Any, read: Callable[[str], Value]) -> Value:
    return [_mapped(item, read) for item in tree] if isinstance(tree, list) else read(tree)


def _number(word: str) -> int | float:
    value = _word(word)
    if isinstance(value, str):
        raise ValueError(word)
    return value


def _word(word: str) -> int | float | str:
    """Return a word as a number, or as it is."""
    if _INTEGER.fullmatch(word):
        return int(word)
    return float(word) if _NUMBER.fullmatch(word) else word


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")


def _tree(text: str) -> Any:
    """Return a text as nested lists of words, or as itself without brackets."""
    text = text.strip()
    if text[:1] not in _PAIRS or not text:
        return text
    tokens = (match[1].strip() for match in _TOKEN.finditer(text))
    return _list(tokens)


def _list(tokens: Iterator[str]) -> Any:
    """Read one bracket with all in it; the tokens begin with it."""
    root: list[Any] = []
    open_lists, closers = [root], [""]
    after_item = False
    for token in tokens:
        current = open_lists[-1]
        if len(open_lists) == 1 and current:
            raise ValueError(f"{token!r} follows the last bracket")
        if token in _PAIRS:
            if after_item:
                raise ValueError("a comma is missing")
            if len(open_lists) > MAX_DEPTH:
                raise ValueError(f"brackets nest deeper than {MAX_DEPTH}")
            current.append([])
            open_lists.append(current[-1])
            closers.append(_PAIRS[token])
        elif token == closers[-1]:
            open_lists.pop()
            closers.pop()
            after_item = True
        elif token == ",":
            if not after_item:
                raise ValueError("a value is missing before a comma")
            after_item = False
        elif token in _PAIRS.values() or after_item:
            raise ValueError(f"{token[:20]!r} where {closers[-1]!r} or a comma is expected")
        elif token:
            current.append(token)
            after_item = True
    if len(open_lists) > 1:
        raise ValueError(f"{closers[-1]!r} is missing at the end")
    return root[0]
