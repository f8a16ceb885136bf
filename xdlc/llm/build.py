"""Building of bundles: from a checkpoint to context binaries, part by part."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from xdlc.container import load
from xdlc.errors import UsageError
from xdlc.ir import Model
from xdlc.ir.dtype import FLOAT16, FLOAT32
from xdlc.llm.bundle import Bundle, Facts, binary_path, part_path, write_bundle, write_part
from xdlc.llm.checkpoint import Checkpoint, open_checkpoint
from xdlc.llm.decoder import Decoder, read_decoder
from xdlc.llm.genie_rules import check_genie
from xdlc.llm.network import Length, Part, Weights, check_parameters, parameters, part_model, parts_of
from xdlc.options import spell
from xdlc.targets import find_soc

if TYPE_CHECKING:
    from xdlc.llm.checkpoint import Weight

WeightForm: TypeAlias = Literal["fp16", "w8", "w4", "w4b32"]
Step: TypeAlias = Callable[[str, int, int], None]
Notify: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Form:
    """How weights and activations are stored.

    Attributes:
        bits: Bits of weights; 16: floats.
        block: Input channels that share a scale; 0: all of an output channel.
        is_fixed: Whether activations are fixed point of 16 bits instead of float16, with calibrated ranges.
    """

    bits: int
    block: int = 0
    is_fixed: bool = False

    def nbytes(self, shape: Sequence[int]) -> int:
        """Return the bytes of a parameter, with the scales of its blocks."""
        elements = math.prod(shape)
        if len(shape) < 2 or self.bits == 16:
            return 2 * elements
        return elements * self.bits // 8 + (2 * elements // self.block if self.block else 0)


FORMS: Mapping[str, Form] = {
    "fp16": Form(16),
    "w4b32": Form(4, 32),
    "w8": Form(8, is_fixed=True),
    "w4": Form(4, 32, is_fixed=True),
}
"""Forms by the words of ``--weights``."""
PART_BYTES = 400 << 20
"""Bytes of the weights of a part, beyond which parts are split at layers."""


def build(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    targets: Sequence[str] = ("sm8650",),
    context: int = 4096,
    prompt_tokens: int = 128,
    weights: str = "w4b32",
    kv: int | None = None,
    splits: int | str = "auto",
    text: str | os.PathLike[str] | None = None,
    verify: bool = True,
    notify: Notify = lambda text: None,
    step: Step = lambda title, done, total: None,
) -> Bundle:
    """Build a bundle of a language model.

    What a build that was interrupted has finished is kept by the next one with the same arguments.

    Args:
        source: A folder of Hugging Face, or a GGUF file.
        output: The folder to write.
        targets: SoCs to compile for, by name.
        context: Most tokens of a conversation.
        prompt_tokens: Tokens of a prompt that are processed at a time.
        weights: A key of ``FORMS``.
        kv: Bits of keys and values of past tokens, 8 or 16; default: 8 with fixed-point activations, else 16.
        splits: Number of parts with a context binary each; ``auto``: by the size of weights.
        text: Text in UTF-8 to calibrate with; needed with fixed-point activations.
        verify: Whether context binaries are verified against the host.
        notify: Called with each notice.
        step: Called with what is done, and how many parts are done of all.

    Raises:
        UsageError: If an option does not fit.
        XdlcError: If the checkpoint is damaged or not supported, or a step fails.
    """
    form = FORMS.get(weights)
    if form is None:
        raise UsageError(f"{spell('weights')} is {weights!r}", fix=f"use one of {', '.join(FORMS)}")
    for name in targets:
        find_soc(name)
    step("reading", 0, 0)
    checkpoint = open_checkpoint(source)
    for notice in checkpoint.notices:
        notify(notice)
    decoder = read_decoder(checkpoint.config)
    lengths = _lengths(decoder, context, prompt_tokens)
    unread = check_parameters(decoder, checkpoint.weights)
    if unread := [name for name in unread if not (decoder.tied and name == "lm_head.weight")]:
        notify(f"the checkpoint has {len(unread)} parameter(s) that the model does not read: {_few(unread)}")
    parts = _split(decoder, form, splits)
    work = _Work(checkpoint, decoder, form, lengths, Path(output), tuple(targets), verify, notify)
    return work.done(parts, weights, kv or 16, step)


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (" and others" if len(names) > 3 else "")


def _lengths(decoder: Decoder, context: int, prompt_tokens: int) -> list[Length]:
    """Return the lengths of the graphs.

    Raises:
        UsageError: If they do not fit.
    """
    if not 1 <= prompt_tokens < context:
        raise UsageError(
            f"{spell('prompt_tokens', prompt_tokens)} and {spell('context', context)} do not fit",
            fix="process 1 or more tokens at a time, and fewer than the context has",
        )
    if context > decoder.positions:
        raise UsageError(
            f"{spell('context')} is {context}, the model was made for {decoder.positions} tokens",
            fix=f"use {spell('context', decoder.positions)} or less",
        )
    return [Length(tokens, context) for tokens in dict.fromkeys((prompt_tokens, 1))]


def _split(decoder: Decoder, form: Form, splits: int | str) -> list[Part]:
    """Return the parts of a decoder.

    Raises:
        UsageError: If there are more parts than layers.
    """
    if splits == "auto":
        return parts_of(decoder, _borders(decoder, form))
    if not isinstance(splits, int) or not 1 <= splits <= decoder.layers:
        raise UsageError(
            f"{spell('splits')} is {splits!r}", fix=f"give auto, or a number of 1 to {decoder.layers}"
        )
    return parts_of(decoder, [decoder.layers * index // splits for index in range(1, splits)])


def _borders(decoder: Decoder, form: Form) -> Iterator[int]:
    """Yield the first layers of parts whose weights have at most ``PART_BYTES``."""
    each = parts_of(decoder, range(1, decoder.layers + 1))
    total = 0
    for part in each:
        nbytes = sum(map(form.nbytes, parameters(decoder, part).values()))
        if total and total + nbytes > PART_BYTES:
            yield part.layers.start
            total = 0
        total += nbytes
