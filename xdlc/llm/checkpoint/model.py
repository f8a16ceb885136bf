"""Content of a checkpoint, whatever file it comes from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from xdlc import ir
from xdlc.errors import ModelError
from xdlc.ir.data import RowRange
from xdlc.ir.encoding import floats, integers
from xdlc.json_fields import json_value

Stamp: TypeAlias = tuple[str, int, int]


class Weight:
    """A parameter.

    Args:
        data: Its values, or the integers that ``encoding`` maps to them, one in each byte.
        encoding: The encoding of integers; None of values.
    """

    def __init__(self, data: ir.TensorData, encoding: ir.BlockScaleOffset | None = None) -> None:
        self.shape = data.shape
        self._read: Callable[[], Weight] | None = None
        self._data, self._encoding = data, encoding

    @classmethod
    def lazy(cls, shape: tuple[int, ...], read: Callable[[], Weight]) -> Weight:
        """Return a parameter that is read when its data or encoding are looked up."""
        weight = cls.__new__(cls)
        weight.shape, weight._read = shape, read
        return weight

    def _load(self) -> None:
        if self._read is not None:
            weight = self._read()
            self._data, self._encoding, self._read = weight.data, weight.encoding, None

    @property
    def data(self) -> ir.TensorData:
        self._load()
        return self._data

    @property
    def encoding(self) -> ir.BlockScaleOffset | None:
        """The encoding of integers, whose scales take memory; None of values."""
        self._load()
        return self._encoding

    def part(self, start: int, stop: int) -> Weight:
        """Return a range of its rows."""
        data, encoding = RowRange(self.data, start, stop), self.encoding
        if encoding is None:
            return Weight(data)
        rows, *_ = encoding.block_shape
        row_blocks = math.prod(self.shape[1:]) // math.prod(encoding.block_shape[1:])
        if start % rows or stop % rows:
            raise ValueError(f"rows {start} to {stop} end inside blocks of {rows}")
        blocks = slice(start // rows * row_blocks, stop // rows * row_blocks)
        scales, offsets = np.asarray(encoding.scales)[blocks], np.asarray(encoding.offsets)[blocks]
        return Weight(data, replace(encoding, scales=floats(scales), offsets=integers(offsets)))

    def floats(self) -> ir.TensorData:
        """Return the values; those of integers are computed when they are read."""
        data, encoding = self.data, self.encoding
        if encoding is None:
            return data
        fixed = ir.dtype.UFIXED8 if data.dtype.kind == "u" else ir.dtype.SFIXED8
        return ir.Dequantized(data, fixed, encoding)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A language model: its configuration, parameters and tokenizer.

    Attributes:
        where: Its file or folder.
        config: Content of Hugging Face's config.json.
        weights: Parameters by Hugging Face's names.
        chat_template: Template of prompts, in Jinja.
        generation: Content of generation_config.json; ``bos_token_id`` is a number or None, ``eos_token_id``
            a list.
        notices: What was omitted or changed.
        stamps: Name, size and time of the files that it is read from; none if it is in memory.
    """

    where: str
    config: dict[str, Any]
    weights: Mapping[str, Weight]
    tokenizer: bytes | None = None
    chat_template: str | None = None
    generation: dict[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    stamps: tuple[Stamp, ...] = ()


def stamps_of(paths: Iterable[Path]) -> tuple[Stamp, ...]:
    """Return names, sizes and times of files, in the order of names."""
    stats = [(path.name, path.stat()) for path in sorted(paths) if path.is_file()]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


def json_object(content: bytes, where: str, most_values: int) -> dict[str, Any]:
    """Return the members of an untrusted JSON object.

    Raises:
        ModelError: If it is not one, or has too many values.
    """
    try:
        value = json_value(content.decode("utf-8"), most_values)
    except ValueError as error:  # also of UTF-8
        raise ModelError(f"is not valid JSON: {error}", where=where, fix="get the file again") from error
    if not isinstance(value, dict):
        raise ModelError("is not a JSON object", where=where, fix="get the file again")
    return value


def omit_unknown_ids(generation: dict[str, Any], config: Mapping[str, Any], where: str) -> list[str]:
    """Omit special tokens that the vocabulary lacks; return notices."""
    inner = config.get("text_config")
    vocab = config.get("vocab_size", inner.get("vocab_size") if isinstance(inner, dict) else None)
    if type(vocab) is not int:
        return []
    notices = []
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        stated = generation.get(key)
        ids = stated if isinstance(stated, list) else [] if stated is None else [stated]
        inside = [index for index in ids if 0 <= index < vocab]
        if inside != ids:
            notices.append(
                f"{where}: xdlc omits {key}, because it is {stated}, which a vocabulary of "
                f"{vocab} tokens does not have"
            )
            generation[key] = inside if isinstance(stated, list) else None
    return notices


class LazyWeights(Mapping[str, Weight]):
    """Parameters that are made when they are looked up, and shared while in use.

    Args:
        makers: What makes each parameter, by name.
    """

    def __init__(self, makers: Mapping[str, Callable[[], Weight]]) -> None:
        self._makers = makers
        self._used: WeakValueDictionary[str, Weight] = WeakValueDictionary()

    def __getitem__(self, name: str) -> Weight:
        weight = self._used.get(name)
        if weight is None:
            weight = self._used[name] = self._makers[name]()
        return weight

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)
