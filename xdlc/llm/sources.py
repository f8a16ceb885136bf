"""Sources of bundles: decoders whose parts become graphs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from xdlc.errors import UsageError
from xdlc.ir import Model, TensorData
from xdlc.ir.derived_data import Dequantized
from xdlc.ir.dtype import FLOAT16, SFIXED8
from xdlc.llm.checkpoint import Checkpoint, open_checkpoint
from xdlc.llm.decoder import Decoder, read_decoder
from xdlc.llm.exported import Exported, Sizes, is_exported
from xdlc.llm.forms import Form, few
from xdlc.llm.layout import Length
from xdlc.llm.network import Part, check_parameters, linear_maps, parameters, part_model, parts_of
from xdlc.llm.weights import Pack, Weights
from xdlc.options import Notify, spell
from xdlc.quant.weights_only import block_quantized

if TYPE_CHECKING:
    from torch.nn import Module

PART_BYTES = 256 << 20
"""Bytes of the weights of a part, beyond which parts are split at layers."""


class Network(Protocol):
    """A decoder whose parts become graphs."""

    @property
    def checkpoint(self) -> Checkpoint:
        """The content of its source."""

    @property
    def positions(self) -> int:
        """Most tokens that it was made for."""

    @property
    def decoder(self) -> Decoder | Sizes: ...

    def has(self, length: Length) -> bool:
        """Return whether it has a graph of a length."""

    def lengths(self, lengths: Sequence[Length], notify: Notify) -> Sequence[Length]:
        """Return those of some lengths that it has graphs of, after its other checks."""

    def parts(self, form: Form, splits: int | str) -> list[Part]:
        """Return its parts, for a number of them or ``auto``."""

    def floats(self, part: Part) -> Callable[[Length], Model]:
        """Return the function that writes the graph of a part for a length, in floats."""

    def maps(self) -> list[str]: ...

    def part(
        self, part: Part, lengths: Sequence[Length], form: Form, bits: Mapping[str, int], notify: Notify
    ) -> Model:
        """Return a part with float activations, of one graph for each length.

        Args:
            bits: Other bits of weights than the form's, by the names of linear maps; 16: floats.
        """


@dataclass(frozen=True, slots=True)
class _Written:
    """A decoder whose graphs are written from its config."""

    checkpoint: Checkpoint
    decoder: Decoder

    @property
    def positions(self) -> int:
        return self.decoder.positions

    def has(self, length: Length) -> bool:
        return True

    def lengths(self, lengths: Sequence[Length], notify: Notify) -> Sequence[Length]:
        unread = check_parameters(self.decoder, self.checkpoint.weights)
        if unread := [name for name in unread if not (self.decoder.tied and name == "lm_head.weight")]:
            notify(f"the checkpoint has {len(unread)} unused parameter(s): {few(unread)}")
        return lengths

    def parts(self, form: Form, splits: int | str) -> list[Part]:
        return _split(self.decoder, form, splits)

    def floats(self, part: Part) -> Callable[[Length], Model]:
        weights = Weights(self.checkpoint.weights)
        return lambda length: part_model(self.decoder, weights, part, length)

    def maps(self) -> list[str]:
        return linear_maps(self.decoder)

    def part(
        self, part: Part, lengths: Sequence[Length], form: Form, bits: Mapping[str, int], notify: Notify
    ) -> Model:
        weights = Weights(self.checkpoint.weights, FLOAT16, None if form.bits == 16 else _packer(form, bits))
        model, *models = [
            part_model(self.decoder, weights, part, length, notify=notify) for length in part.lengths(lengths)
        ]
        for shorter in models:
            model.add_graph(shorter.main)
        return model


def open_network(source: str | os.PathLike[str] | Module) -> Network:
    """Return the decoder of a checkpoint, a module in memory or an exported file.

    Raises:
        XdlcError: If it is damaged or not supported.
    """
    if isinstance(source, str | os.PathLike) and is_exported(Path(source)):
        return Exported(Path(source))
    checkpoint = open_checkpoint(source)
    return _Written(checkpoint, read_decoder(checkpoint.config))


def _packer(form: Form, bits_of: Mapping[str, int]) -> Pack:
    """Return the function that stores weights as integers, or as floats of 16 bits.

    Args:
        bits_of: Other bits than the form's, by the names of linear maps.
    """

    def pack(data: TensorData, name: str) -> TensorData:
        bits = bits_of.get(name, form.bits)
        if bits == 16:
            return data.cast(FLOAT16.numpy)
        integers, encoding = block_quantized(data, bits, form.block)
        return Dequantized(integers, SFIXED8, encoding)

    return pack


def _split(decoder: Decoder, form: Form, splits: int | str) -> list[Part]:
    """Return the parts of a decoder."""
    if splits == "auto":
        return parts_of(decoder, _borders(decoder, form))
    if not isinstance(splits, int) or not 1 <= splits <= decoder.layers:
        raise UsageError(
            f"{spell('splits')} is {splits!r}", fix=f"give auto, or a number from 1 to {decoder.layers}"
        )
    return parts_of(decoder, [decoder.layers * index // splits for index in range(1, splits)])


def _borders(decoder: Decoder, form: Form) -> Iterator[int]:
    """Yield the first layers of parts whose weights have at most ``PART_BYTES``."""
    layers = parts_of(decoder, range(1, decoder.layers + 1))
    table = f"{decoder.family.names.embedding}.weight"
    total = 0
    for part in layers:
        shapes = parameters(decoder, part)
        nbytes = sum(form.nbytes(shape, is_table=name == table) for name, shape in shapes.items())
        if total and total + nbytes > PART_BYTES:
            yield part.layers.start
            total = 0
        total += nbytes
