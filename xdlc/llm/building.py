"""Building of bundles: from a checkpoint to context binaries, part by part."""

from __future__ import annotations

import gc
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from xdlc.container import load
from xdlc.errors import UsageError
from xdlc.ir.files import kept_apart, make_folder, read_bytes, replace_file, replace_text
from xdlc.json_fields import fits, json_value
from xdlc.llm import genai
from xdlc.llm.bundle import FACTS, Bundle, Facts, binary_path, part_path, write_bundle
from xdlc.llm.calibration import Calibrated, short
from xdlc.llm.checkpoint import Checkpoint
from xdlc.llm.checkpoint.model import stamps_of
from xdlc.llm.checkpoint.texts import begins_texts, texts_of
from xdlc.llm.forms import FORMS, Form
from xdlc.llm.genie_rules import check_genie
from xdlc.llm.layout import Length
from xdlc.llm.network import Part
from xdlc.llm.running import EMULATION, checks_of, compile_part, is_newer
from xdlc.llm.sources import Network, open_network
from xdlc.llm.tokenizer import Tokenizer, read_text
from xdlc.options import DEFAULT_SOC, Names, Notify, Step, check_values, spell
from xdlc.options.language_models import BuildOptions
from xdlc.options.running import WorkerOptions
from xdlc.targets import find_soc
from xdlc.version import VERSION
from xdlc.worker.temporary import TemporaryFolder

if TYPE_CHECKING:
    from torch.nn import Module
    from transformers import PreTrainedTokenizerBase

PROGRESS = "build.json"
"""File of a bundle under construction with the fingerprint of its parts."""
_LONGEST = 1 << 16


def build(
    source: str | os.PathLike[str] | Module,
    output: str | os.PathLike[str],
    *,
    targets: Sequence[str] = (DEFAULT_SOC,),
    context: int | Sequence[int] = 4096,
    prompt_tokens: int = 128,
    weights: str = "w4b32",
    kv: int | None = None,
    splits: int | str = "auto",
    text: str | os.PathLike[str] | None = None,
    tokenizer: str | os.PathLike[str] | bytes | PreTrainedTokenizerBase | None = None,
    algorithms: Names = (),
    weights_bitwidth_of: Mapping[str, int] | None = None,
    verify: bool = True,
    jobs: int = 1,
    scheduler: str | None = None,
    executor: Executor | None = None,
    notify: Notify = lambda text: None,
    step: Step = lambda title, done, total: None,
) -> Bundle:
    """Build a bundle of a language model.

    What a build that was interrupted has finished is kept by the next one with the same arguments.

    Args:
        source: A folder of Hugging Face, a GGUF file, a network of transformers in memory, or a file of a
            decoder with the inputs and outputs of docs/guides/llm.md, as torch.export writes it.
        context: Most tokens of a conversation; with several, a run uses the shortest that holds the tokens.
        prompt_tokens: Tokens of a prompt that are processed at a time.
        weights: A key of ``FORMS``.
        kv: Bits of keys and values of past tokens, 8 or 16; default: 8 with fixed-point activations, else 16.
        splits: Number of parts with a context binary each; ``auto``: by the size of weights.
        text: Text in UTF-8 to calibrate with; needed with fixed-point activations.
        tokenizer: A tokenizer of transformers, or tokenizer.json: its path, its folder or its content;
            default: that of the source.
        algorithms: Accuracy algorithms of the quantizer, for fixed-point activations.
        weights_bitwidth_of: Bits of weights by the names of linear maps, in which ``*`` matches any
            characters.
        verify: Whether context binaries are verified against the host.
        jobs: Context binaries to compile at a time, and processes that calibrate.
        scheduler: Address of a Dask scheduler, whose workers calibrate and compile.
        executor: An executor that does.
        step: Called with what is done, and how many steps are done of all.

    Raises:
        UsageError: If an option does not fit.
        XdlcError: If the checkpoint is damaged or not supported, or a step fails.
    """
    stated = {"weights": weights, "kv": kv, "prompt_tokens": prompt_tokens, "jobs": jobs}
    check_values(BuildOptions, {**stated, "weights_bitwidth_of": weights_bitwidth_of})
    contexts = (context,) if isinstance(context, int) else tuple(context)
    algorithms = (algorithms,) if isinstance(algorithms, str) else tuple(algorithms)
    for option, values in {"context": contexts, "algorithms": algorithms}.items():
        for value in values:
            check_values(BuildOptions, {option: value})
    form = FORMS[weights]
    socs = tuple(dict.fromkeys(find_soc(name).name for name in targets))
    step("reading", 0, 0)
    network = open_network(source)
    checkpoint = network.checkpoint
    if tokenizer is not None:
        texts = texts_of(tokenizer)
        template = texts.chat_template or checkpoint.chat_template
        checkpoint = replace(checkpoint, tokenizer=texts.tokenizer, chat_template=template)
    for notice in checkpoint.notices:
        notify(notice)
    lengths = network.lengths(_lengths(network, contexts, prompt_tokens), notify)
    parts = network.parts(form, splits)
    bits = form.bits_of(network.maps(), weights_bitwidth_of or {})
    if algorithms and not form.is_fixed:
        raise UsageError(
            f"{spell('algorithms')} has no effect: activations stay floats, which need no calibration",
            fix=f"omit the option, or use {spell('weights', 'w4')} or w8",
        )
    request = _Request(
        checkpoint,
        network,
        form,
        tuple(lengths),
        socs,
        verify,
        _kv_bits(form, kv),
        bits,
        algorithms,
        WorkerOptions(jobs=jobs, scheduler=scheduler, executor=executor),
    )
    if text is not None and not form.is_fixed:
        notify(f"{spell('text')} has no effect: activations stay floats, which need no calibration")
    return _built(request, parts, Path(output), text, weights, notify, step)


def _kv_bits(form: Form, bits: int | None) -> int:
    """Return the bits of cached keys and values."""
    if bits == 8 and not form.is_fixed:
        raise UsageError("8-bit caches need 16-bit activations", fix=f"use {spell('weights', 'w8')} or w4")
    return bits or (8 if form.is_fixed else 16)


@dataclass(frozen=True, slots=True)
class _Request:
    """What to build.

    Attributes:
        lengths: Lengths of the graphs.
        bits: Other bits of weights than the form's, by the names of linear maps.
        algorithms: Accuracy algorithms of the quantizer.
        workers: Who works; the bundle does not depend on them.
    """

    checkpoint: Checkpoint
    network: Network
    form: Form
    lengths: tuple[Length, ...]
    targets: tuple[str, ...]
    verifies: bool
    kv_bits: int
    bits: Mapping[str, int]
    algorithms: tuple[str, ...]
    workers: WorkerOptions

    @property
    def shares(self) -> bool:
        """Whether graphs of a context binary have their common weights once."""
        return len(self.lengths) > 1

    def fingerprint(self, parts: Sequence[Part], text: str | os.PathLike[str] | None) -> str:
        """Return a digest of what the files of parts depend on."""
        files = [] if text is None else stamps_of([Path(text)])
        lengths = [(length.tokens, length.context) for length in self.lengths]
        layers = [(part.layers.start, part.layers.stop) for part in parts]
        form = (self.form.bits, self.form.block, self.form.is_fixed, self.kv_bits, self.targets[:1])
        options = (form, self.bits, self.algorithms, self.verifies)
        facts = (VERSION, self.checkpoint.config, self.checkpoint.stamps, files, lengths, layers, options)
        digest = hashlib.sha256(json.dumps(facts, default=str).encode())
        digest.update(self.checkpoint.tokenizer or b"")
        if not self.checkpoint.stamps:
            target: Any = SimpleNamespace(write=digest.update)
            for weight in self.checkpoint.weights.values():
                weight.data.write_to(target)
        return digest.hexdigest()


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
    progress = Progress(folder, request.fingerprint(parts, text))
    total = len(parts) * (1 + len(request.targets))
    jobs: list[tuple[Path, Future[list[str]]]] = []
    done = 0

    def report() -> None:
        step("building", done + sum(job.done() for _, job in jobs), total)

    def compile_one(path: Path, soc: str, file: Path) -> list[str]:
        """Return the notices, which the caller's thread reports."""
        verify, share = request.verifies, request.shares
        notices = list[str]()
        elsewhere: WorkerOptions = {**request.workers, "jobs": 1}
        check = compile_part(path, soc, file, verify=verify, notify=notices.append, share=share, **elsewhere)
        progress.note(file, check)
        gc.collect()
        return notices

    compiling = ThreadPoolExecutor(request.workers["jobs"] or 1)
    try:
        for part in parts:
            report()
            path = part_path(folder, part.number, part.count)
            source.part(part, path)
            check_genie([load(path)])
            gc.collect()  # graphs are cycles, and encodings of blocks take 200 MB a part
            done += 1
            for _, job in jobs:
                if job.done():
                    job.result()
            for soc in request.targets:
                file = binary_path(folder, soc, part.number, part.count)
                make_folder(file.parent)
                if is_newer(file, path):
                    done += 1
                else:
                    jobs.append((file, compiling.submit(compile_one, path, soc, file)))
        for file, job in jobs:
            report()
            for notice in job.result():
                notify(f"{file.parent.name}/{file.name}: {notice}")
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


class _Source:
    """Makes the parts of a request, in order."""

    def __init__(self, request: _Request, text: str | os.PathLike[str] | None, notify: Notify) -> None:
        self._request, self._notify = request, notify
        form = request.form
        self._calibrated: Calibrated | None = None
        if form.is_fixed:
            tokens = _tokens(request.checkpoint, text)
            options = form.options | request.workers | {"algorithms": request.algorithms}
            if request.targets:
                options["target"] = request.targets[0]
            network, prompt = request.network, request.lengths[0]
            self._calibrated = Calibrated(
                network.decoder.rope,
                tokens,
                short(prompt) if network.has(short(prompt)) else prompt,
                request.lengths,
                request.kv_bits,
                request.bits,
                options,
                notify,
            )

    def part(self, part: Part, path: Path) -> None:
        """Write a part, unless it is there."""
        request, calibrated = self._request, self._calibrated
        network = request.network
        if path.is_file():
            if calibrated is not None:
                calibrated.skip(part, network.floats(part), load(path))
            return
        if calibrated is not None:
            model = calibrated.part(part, network.floats(part))
        else:
            model = network.part(part, request.lengths, request.form, request.bits, self._notify)
        model.save(path)


def _tokens(checkpoint: Checkpoint, text: str | os.PathLike[str] | None) -> list[int]:
    """Return the tokens of a text to calibrate with."""
    if text is None:
        raise UsageError(
            "16-bit activations need a text for calibration",
            fix=f"pass {spell('text', 'FILE')}, or keep floats with {spell('weights', 'w4b32')}",
        )
    if checkpoint.tokenizer is None:
        raise UsageError(
            "the checkpoint has no tokenizer.json, which the text needs",
            where=checkpoint.where,
            fix=f"add tokenizer.json, or keep floats with {spell('weights', 'w4b32')}",
        )
    content = read_text(text)
    with TemporaryFolder() as folder:
        path = Path(folder, "tokenizer.json")
        replace_file(path, checkpoint.tokenizer)
        with Tokenizer(path) as tokenizer:
            return tokenizer.encode(content, special=False)


def _facts(request: _Request, weights: str, checks: tuple[str, ...]) -> Facts:
    decoder, checkpoint = request.network.decoder, request.checkpoint
    first = checkpoint.generation.get("bos_token_id")
    tokenizer = checkpoint.tokenizer
    if tokenizer is not None and not begins_texts(tokenizer, checkpoint.where):
        first = None
    ids = range(decoder.vocab)
    return Facts(
        family=decoder.type,
        vocab=decoder.vocab,
        context=request.lengths[0].context,
        shorter_contexts=tuple({length.context: None for length in request.lengths})[1:],
        prompt_tokens=request.lengths[0].tokens,
        layers=decoder.layers,
        kv_heads=decoder.kv_heads,
        head_dim=decoder.head_dim,
        weights=weights,
        kv_bits=request.kv_bits,
        rope=decoder.rope,
        bos=first if first in ids else None,
        eos=tuple(token for token in checkpoint.generation.get("eos_token_id") or [] if token in ids),
        chat_template=checkpoint.chat_template,
        checks=checks,
    )


def _lengths(network: Network, contexts: Sequence[int], prompt_tokens: int) -> list[Length]:
    """Return the lengths of the graphs, those of the longest context first."""
    contexts = sorted({*contexts}, reverse=True)
    if not contexts:
        raise UsageError(
            f"{spell('context')} is empty", fix="give the number of tokens of the longest conversation"
        )
    if prompt_tokens >= contexts[-1]:
        raise UsageError(
            f"{spell('prompt_tokens', prompt_tokens)} is not below {spell('context', contexts[-1])}",
            fix=f"set {spell('prompt_tokens')} to fewer tokens than the context has",
        )
    if contexts[0] > network.positions:
        raise UsageError(
            f"{spell('context')} is {contexts[0]}, but the model supports at most {network.positions} tokens",
            fix=f"use {spell('context', network.positions)} or less",
        )
    sizes = dict.fromkeys((prompt_tokens, 1))
    return [Length(tokens, longest) for longest in contexts for tokens in sizes]


class Progress:
    """The finished parts of a build, noted in its folder.

    Files of another build are removed from the folder.

    Attributes:
        checks: What was verified, by the names of context binaries.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._path, self._fingerprint = folder / PROGRESS, fingerprint
        self._checks: dict[str, str] = {}
        self._lock = Lock()
        with kept_apart([self._path]):  # which is replaced later on
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
                if file.suffix == ".bin":  # which a pipeline names
                    file.with_name(genai.CONFIG).unlink(missing_ok=True)
                file.unlink()
        self._write()

    @property
    def checks(self) -> tuple[str, ...]:
        """A sentence for each verified context binary, in the order of parts."""

        def place(name: str) -> tuple[int, str, str]:
            soc, _, file = name.partition("/")
            return len(file), file, soc

        return tuple(self._checks[name] for name in sorted(self._checks, key=place))

    def note(self, file: Path, check: str | None) -> None:
        """Note what was verified of a context binary."""
        if check is not None:
            with self._lock:
                self._checks[f"{file.parent.name}/{file.name}"] = check
                self._write()

    def end(self) -> None:
        """Remove the file: the bundle is complete."""
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        state = {"fingerprint": self._fingerprint, "checks": self._checks}
        replace_text(self._path, json.dumps(state) + "\n")
