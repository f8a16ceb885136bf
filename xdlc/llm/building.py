"""Building of bundles: from a checkpoint to context binaries, part by part."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from xdlc.container import load
from xdlc.errors import UsageError
from xdlc.ir import Model, TensorData
from xdlc.ir.derived_data import Dequantized
from xdlc.ir.dtype import FLOAT16, SFIXED8
from xdlc.ir.files import read_bytes, replace_file, replace_text
from xdlc.json_fields import fits, json_value
from xdlc.llm.bundle import FACTS, Bundle, Facts, binary_path, make_folder, part_path, write_bundle
from xdlc.llm.calibration import Calibrated
from xdlc.llm.checkpoint import Checkpoint, open_checkpoint
from xdlc.llm.checkpoint.tokenizer import begins_texts
from xdlc.llm.decoder import Decoder, read_decoder
from xdlc.llm.genie_rules import check_genie
from xdlc.llm.network import (
    HEAD,
    Length,
    Part,
    check_parameters,
    linear_maps,
    parameters,
    part_model,
    parts_of,
)
from xdlc.llm.running import EMULATION, checks_of, compile_part, is_newer
from xdlc.llm.tokenizer import Tokenizer, read_text
from xdlc.llm.weights import Pack, Weights
from xdlc.options import spell
from xdlc.quant.weights_only import block_quantized
from xdlc.targets import find_soc
from xdlc.version import VERSION
from xdlc.worker.temporary import TemporaryFolder, temporary_files

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

    @property
    def options(self) -> dict[str, Any]:
        """Options of the quantizer, for fixed-point activations."""
        blocks = {"weights_block_size": self.block, "use_lpbq": True} if self.block else {}
        return {"weights_bitwidth": self.bits, **blocks}

    def bits_of(self, decoder: Decoder, stated: Mapping[str, int]) -> dict[str, int]:
        """Return other bits of weights than the form's, by the names of linear maps.

        Args:
            stated: Bits by names, in which ``*`` matches any characters.

        Raises:
            UsageError: If no linear map has a name, or the form has floats.
        """
        if stated and self.bits == 16:
            raise UsageError(
                "floats have no other bits",
                where=spell("weights_bitwidth_of"),
                fix=f"use {spell('weights', 'w4b32')}, or another form of integers",
            )
        names = linear_maps(decoder)
        bits = {HEAD: max(self.bits, HEAD_BITS)}
        for pattern, number in stated.items():
            matching = fnmatch.filter(names, pattern)
            if not matching:
                raise UsageError(
                    f"no linear map is called {pattern!r}",
                    where=spell("weights_bitwidth_of"),
                    fix=f"use names like {_few(names[:2] + names[-1:])}",
                )
            bits |= dict.fromkeys(matching, number)
        return {name: number for name, number in bits.items() if number != self.bits}

    def nbytes(self, shape: Sequence[int], *, is_table: bool = False) -> int:
        """Return the bytes of a parameter, with the scales of its blocks."""
        elements = math.prod(shape)
        if is_table:
            return elements * (2 if self.is_fixed or self.bits == 16 else 1)
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
HEAD_BITS = 8
"""Least bits of the weights that logits are computed with: fewer cost the most there."""
PART_BYTES = 256 << 20
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
    algorithms: Sequence[str] = (),
    weights_bitwidth_of: Mapping[str, int] | None = None,
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
        algorithms: Accuracy algorithms of the quantizer, for fixed-point activations.
        weights_bitwidth_of: Bits of weights by the names of linear maps, in which ``*`` matches any
            characters.
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
    socs = tuple(dict.fromkeys(find_soc(name).name for name in targets))
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
    bits = form.bits_of(decoder, weights_bitwidth_of or {})
    if algorithms and not form.is_fixed:
        raise UsageError(
            f"{spell('algorithms')} has no effect: activations stay floats, which nothing calibrates",
            fix=f"omit it, or use {spell('weights', 'w4')} or w8",
        )
    request = _Request(
        checkpoint, decoder, form, tuple(lengths), socs, verify, _kv_bits(form, kv), bits, tuple(algorithms)
    )
    if text is not None and not form.is_fixed:
        notify(f"{spell('text')} has no effect: activations stay floats, which nothing calibrates")
    return _built(request, parts, Path(output), text, weights, notify, step)


def _kv_bits(form: Form, bits: int | None) -> int:
    """Return the bits of cached keys and values.

    Raises:
        UsageError: If the form has no such caches.
    """
    if bits not in (None, 8, 16):
        raise UsageError(f"{spell('kv')} is {bits!r}", fix="use 8 or 16")
    if bits == 8 and not form.is_fixed:
        raise UsageError(
            "caches of 8 bits need activations of 16 bits", fix=f"use {spell('weights', 'w8')} or w4"
        )
    return bits or (8 if form.is_fixed else 16)


@dataclass(frozen=True, slots=True)
class _Request:
    """What to build.

    Attributes:
        lengths: Lengths of the graphs.
        targets: SoCs to compile for.
        verifies: Whether context binaries are verified.
        kv_bits: Bits of keys and values of past tokens.
        bits: Other bits of weights than the form's, by the names of linear maps.
        algorithms: Accuracy algorithms of the quantizer.
    """

    checkpoint: Checkpoint
    decoder: Decoder
    form: Form
    lengths: tuple[Length, ...]
    targets: tuple[str, ...]
    verifies: bool
    kv_bits: int
    bits: Mapping[str, int]
    algorithms: tuple[str, ...]

    @property
    def shares(self) -> bool:
        """Whether graphs of a context binary have their common weights once."""
        return len(self.lengths) > 1

    def fingerprint(self, parts: Sequence[Part], text: str | os.PathLike[str] | None) -> str:
        """Return a digest of what the files of parts depend on."""
        place = Path(self.checkpoint.where)
        files = sorted(place.iterdir()) if place.is_dir() else [place]
        files += [] if text is None else [Path(text)]
        stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.exists()]
        lengths = [(length.tokens, length.context) for length in self.lengths]
        layers = [(part.layers.start, part.layers.stop) for part in parts]
        form = (self.form.bits, self.form.block, self.form.is_fixed, self.kv_bits, self.targets[:1])
        facts = (VERSION, stats, lengths, layers, form, self.bits, self.algorithms, self.verifies)
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


PROGRESS = "build.json"
"""File of a bundle under construction with the fingerprint of its parts."""
_LONGEST = 1 << 16


def _built(
    request: _Request,
    parts: Sequence[Part],
    folder: Path,
    text: str | os.PathLike[str] | None,
    weights: str,
    notify: Notify,
    step: Step,
) -> Bundle:
    source = _Source(request, text, notify)
    make_folder(folder)
    progress = _Progress(folder, request.fingerprint(parts, text))
    total = len(parts) * (1 + len(request.targets))
    jobs: list[tuple[Path, Future[None]]] = []
    done = 0

    def compile_one(path: Path, soc: str, file: Path) -> None:
        verify, share = request.verifies, request.shares
        check = compile_part(path, soc, file, verify=verify, notify=notify, share=share)
        progress.note(file, check)

    compiling = ThreadPoolExecutor(1)
    try:
        for part in parts:
            step(f"building part {part.number} of {part.count}", done, total)
            path = part_path(folder, part.number, part.count)
            source.part(part, path)
            check_genie([load(path)])
            done += 1
            for _, job in jobs:
                if job.done():
                    job.result()
            for soc in request.targets:
                file = binary_path(folder, soc, part.number, part.count)
                make_folder(file.parent)
                if not is_newer(file, path):
                    jobs.append((file, compiling.submit(compile_one, path, soc, file)))
        for file, job in jobs:
            step(f"compiling {file.stem} for {file.parent.name}", done, total)
            job.result()
            done += 1
    finally:
        compiling.shutdown(cancel_futures=True)
    models = [load(part_path(folder, part.number, part.count)) for part in parts]
    check_genie(models)
    facts = _facts(request, weights, progress.checks)
    tokenizer = request.checkpoint.tokenizer
    bundle = write_bundle(folder, facts, models, request.targets, tokenizer, is_shared=request.shares)
    if request.verifies and (checks := checks_of(bundle, step)):
        facts = replace(facts, checks=(*facts.checks, *checks))
        bundle = write_bundle(folder, facts, models, request.targets, tokenizer, is_shared=request.shares)
    progress.end()
    return bundle


class _Progress:
    """What is finished of a build, kept in its folder.

    Files of another build are removed from the folder.

    Attributes:
        checks: What was verified, by the names of context binaries.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._path, self._fingerprint = folder / PROGRESS, fingerprint
        self._checks: dict[str, str] = {}
        content = read_bytes(self._path, _LONGEST)[:_LONGEST] if self._path.is_file() else b""
        try:
            state = json_value(content.decode("utf-8"))
        except ValueError:  # also of UTF-8
            state = None
        if fits(state, {"fingerprint": str, "checks": {"*": str}}) and state["fingerprint"] == fingerprint:
            self._checks = state["checks"]
            return
        binaries = ("*/decoder_*_of_*.bin", f"{EMULATION}/*/decoder_*_of_*.bin")
        for pattern in (FACTS, "decoder_*_of_*.dlc", *binaries):
            for file in folder.glob(pattern):
                file.unlink()
        self._write()

    @property
    def checks(self) -> tuple[str, ...]:
        """What was verified, a sentence for each context binary."""
        return tuple(self._checks.values())

    def note(self, file: Path, check: str | None) -> None:
        """Note what was verified of a context binary."""
        if check is not None:
            self._checks[f"{file.parent.name}/{file.name}"] = check
            self._write()

    def end(self) -> None:
        """Remove the file: the bundle is complete."""
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        state = {"fingerprint": self._fingerprint, "checks": self._checks}
        replace_text(self._path, json.dumps(state) + "\n")


class _Source:
    """Makes the parts of a request, in order.

    Args:
        text: Text in UTF-8 to calibrate with.
    """

    def __init__(self, request: _Request, text: str | os.PathLike[str] | None, notify: Notify) -> None:
        self._request, self._notify = request, notify
        form = request.form
        self._calibrated: Calibrated | None = None
        if form.is_fixed:
            tokens = _tokens(request.checkpoint, text)
            options = form.options | {"algorithms": request.algorithms}
            if request.targets:
                options["target"] = request.targets[0]
            self._calibrated = Calibrated(
                request.decoder, tokens, request.lengths, request.kv_bits, request.bits, options, notify
            )

    def _weights(self) -> Weights:
        """Return the parameters, none of which is in memory."""
        weights, form = self._request.checkpoint.weights, self._request.form
        packer = None if form.bits == 16 else _packer(form, self._request.bits)
        return Weights(weights) if form.is_fixed else Weights(weights, FLOAT16, packer)

    def part(self, part: Part, path: Path) -> None:
        """Write a part, unless it is there."""
        request = self._request
        if path.is_file():
            if self._calibrated is not None:
                self._calibrated.skip(part, self._weights(), load(path))
            return
        if self._calibrated is not None:
            model = self._calibrated.part(part, self._weights())
        else:
            model = _float_part(request, part, self._weights(), self._notify)
        model.save(path)


def _tokens(checkpoint: Checkpoint, text: str | os.PathLike[str] | None) -> list[int]:
    """Return the tokens of a text to calibrate with.

    Raises:
        UsageError: If there is no text, or no tokenizer for it.
    """
    if text is None:
        raise UsageError(
            "activations of 16 bits are calibrated with a text, and none is given",
            fix=f"pass {spell('text', 'FILE')}, or keep floats with {spell('weights', 'w4b32')}",
        )
    if checkpoint.tokenizer is None:
        raise UsageError(
            "the checkpoint has no tokenizer.json, which the text needs",
            where=checkpoint.where,
            fix=f"add it, or keep floats with {spell('weights', 'w4b32')}",
        )
    content = read_text(text)
    with temporary_files():
        temporary = TemporaryFolder()
    with temporary as folder:
        path = Path(folder, "tokenizer.json")
        replace_file(path, checkpoint.tokenizer)
        with Tokenizer(path) as tokenizer:
            return tokenizer.encode(content, special=False)


def _float_part(request: _Request, part: Part, weights: Weights, notify: Notify) -> Model:
    """Return a part with float activations, of one graph for each length."""
    model, *models = [
        part_model(request.decoder, weights, part, length, notify=notify) for length in request.lengths
    ]
    for shorter in models:
        model.add_graph(shorter.main)
    return model


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


def _facts(request: _Request, weights: str, checks: tuple[str, ...]) -> Facts:
    decoder, checkpoint = request.decoder, request.checkpoint
    first = checkpoint.generation.get("bos_token_id")
    tokenizer = checkpoint.tokenizer
    if tokenizer is not None and not begins_texts(tokenizer, checkpoint.where):
        first = None
    ends = [token for token in checkpoint.generation.get("eos_token_id") or [] if token < decoder.vocab]
    return Facts(
        family=decoder.type,
        vocab=decoder.vocab,
        context=request.lengths[0].context,
        prompt_tokens=request.lengths[0].tokens,
        layers=decoder.layers,
        kv_heads=decoder.kv_heads,
        head_dim=decoder.head_dim,
        weights=weights,
        kv_bits=request.kv_bits,
        rope=decoder.rope,
        bos=first if first is not None and first < decoder.vocab else None,
        eos=tuple(ends),
        chat_template=checkpoint.chat_template,
        checks=checks,
    )


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
