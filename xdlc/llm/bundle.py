"""Bundles: folders of language models for the vendor's runtime, with facts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from xdlc.errors import ModelError, StorageError
from xdlc.ir import Model, TensorData
from xdlc.ir.files import read_bytes, replace_file, replace_text
from xdlc.json_fields import Fields, Node, Scope, json_value
from xdlc.llm.decoder import Rope
from xdlc.llm.readme import readme
from xdlc.targets import find_soc

FACTS, TOKENIZER, README = "xdlc_llm.json", "tokenizer.json", "README.md"
CONFIG, EXTENSIONS = "genie_config.json", "htp_backend_ext_config.json"
_LONGEST_FACTS = 1 << 20
_MOST_TOKENS = 1 << 24
_MOST_PARTS = 256
_AGAIN = "build the bundle again: xdlc-llm build"
_SCALINGS: Mapping[str, Sequence[str]] = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "longrope": (
        "short_factor",
        "long_factor",
        "original_max_position_embeddings",
        "max_position_embeddings",
    ),
}
"""Scalings of rotary positions that the vendor's runtime computes, with their facts."""
_BY_PAIR = ("short_factor", "long_factor")
"""Facts with a number for each pair of rotated elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about a language model that its runtime has to know.

    Attributes:
        family: Family of the decoder, like ``llama``.
        vocab: Number of tokens that the logits are of.
        context: Tokens of the context.
        prompt_tokens: Tokens that the prompt graph reads at a time.
        layers: Number of layers.
        kv_heads: Heads of keys and values.
        head_dim: Elements of a head.
        weights: Form of the weights, like ``w4``.
        kv_bits: Bits of a cached element.
        rope: Rotary positions as inputs of the graph; None if it computes positions from ``position_ids``.
        bos: Token that every text begins with; None without one.
        eos: Tokens that end an answer.
        chat_template: Template of a conversation, in Jinja.
        special: Texts of special tokens by the names that templates use, like ``bos_token``.
        checks: Sentences on what was verified.
        perplexities: Perplexity by what ran the model, measured while it was built.
    """

    family: str
    vocab: int
    context: int
    prompt_tokens: int
    layers: int
    kv_heads: int
    head_dim: int
    weights: str
    kv_bits: int
    rope: Rope | None = None
    bos: int | None = None
    eos: tuple[int, ...] = ()
    chat_template: str | None = None
    special: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    perplexities: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """The context binaries for a SoC.

    Attributes:
        binaries: Their files, by part.
        is_shared: Whether graphs share their weights: such binaries load on a device only.
    """

    binaries: tuple[Path, ...]
    is_shared: bool


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle on the disk.

    Attributes:
        folder: Its folder.
        facts: Facts about its model.
        parts: The DLCs, in the order of the layers.
        targets: Context binaries by SoC.
        tokenizer: The tokenizer's file; None without one.
    """

    folder: Path
    facts: Facts
    parts: tuple[Path, ...]
    targets: Mapping[str, Target]
    tokenizer: Path | None


def write_bundle(
    folder: str | os.PathLike[str],
    facts: Facts,
    parts: Sequence[Model],
    *,
    binaries: Mapping[str, Sequence[TensorData]] | None = None,
    is_shared: bool = False,
    tokenizer: bytes | None = None,
) -> Bundle:
    """Write a bundle; ``xdlc_llm.json`` is written last.

    Args:
        folder: The folder, which is made.
        facts: Facts about the model.
        parts: Models with the graphs of the parts, in the order of the layers.
        binaries: A context binary for each part, by SoC.
        is_shared: Whether graphs of a binary share their weights.
        tokenizer: Content of ``tokenizer.json``.

    Raises:
        StorageError: If a file cannot be written.
    """
    place = Path(folder)
    names = [f"decoder_{number}_of_{len(parts)}" for number in range(1, len(parts) + 1)]
    for soc_folder in (place, *(place / soc for soc in binaries or ())):
        _make(soc_folder)
    for name, part in zip(names, parts, strict=True):
        part.save(place / f"{name}.dlc")
    if tokenizer is not None:
        replace_file(place / TOKENIZER, tokenizer)
    targets: dict[str, Target] = {}
    for soc, contexts in (binaries or {}).items():
        files = tuple(place / soc / f"{name}.bin" for name in names)
        for file, content in zip(files, contexts, strict=True):
            replace_file(file, content.write_to)
        config = genie_config(facts, [file.name for file in files])
        replace_text(place / soc / CONFIG, _json(config))
        replace_text(place / soc / EXTENSIONS, extensions_text(soc))
        if tokenizer is not None:
            replace_file(place / soc / TOKENIZER, tokenizer)
        targets[soc] = Target(files, is_shared)
    bundle = Bundle(
        place,
        facts,
        tuple(place / f"{name}.dlc" for name in names),
        targets,
        None if tokenizer is None else place / TOKENIZER,
    )
    replace_text(place / README, readme(bundle, parts))
    record = {
        "facts": asdict(facts),
        "parts": [path.name for path in bundle.parts],
        "targets": {soc: {"is_shared": target.is_shared} for soc, target in targets.items()},
        "has_tokenizer": tokenizer is not None,
    }
    replace_text(place / FACTS, _json(record))
    return bundle


def genie_config(facts: Facts, binaries: Sequence[str]) -> dict[str, Any]:
    """Return the configuration of a dialog, as ``genie_config.json`` has it.

    Args:
        facts: Facts about the model.
        binaries: Files of the context binaries.
    """
    backend = {
        "version": 1,
        "use-mmap": True,
        "spill-fill-bufsize": 0,
        "mmap-budget": 0,
        "poll": True,
        "cpu-mask": "0xe0",
        "kv-dim": facts.head_dim,
        "allow-async-init": False,
    }
    end = list(facts.eos) or [-1]
    return {
        "dialog": {
            "version": 1,
            "type": "basic",
            "context": {
                "version": 1,
                "size": facts.context,
                "n-vocab": facts.vocab,
                "bos-token": -1 if facts.bos is None else facts.bos,
                "eos-token": end[0] if len(end) == 1 else end,
            },
            "sampler": sampler(),
            "tokenizer": {"version": 1, "path": TOKENIZER},
            "engine": {
                "version": 1,
                "n-threads": 3,
                "backend": {
                    "version": 1,
                    "type": "QnnHtp",
                    "QnnHtp": backend,
                    "extensions": EXTENSIONS,
                },
                "model": {
                    "version": 1,
                    "type": "binary",
                    "binary": {"version": 1, "ctx-bins": list(binaries)},
                    "positional-encoding": _positions(facts.rope),
                },
            },
        }
    }


def sampler(temperature: float = 0, top_k: int = 1, top_p: float = 1, seed: int = 42) -> dict[str, Any]:
    """Return the sampler of a configuration; a temperature of 0 is greedy."""
    is_greedy = not temperature
    return {
        "version": 1,
        "seed": seed,
        "temp": 1.0 if is_greedy else temperature,
        "top-k": 1 if is_greedy else top_k,  # the runtime draws from several in spite of "greedy"
        "top-p": 1.0 if is_greedy else top_p,
        "greedy": is_greedy,
    }


def _positions(rope: Rope | None) -> dict[str, Any]:
    if rope is None:
        return {"type": "absolute"}
    positions: dict[str, Any] = {"type": "rope", "rope-dim": rope.dim // 2, "rope-theta": rope.theta}
    if rope.scaling != "default":
        numbers = {name: rope.facts[name] for name in _SCALINGS[rope.scaling]}
        if "max_position_embeddings" in numbers:
            longest = numbers.pop("max_position_embeddings")
            numbers["factor"] = longest / numbers["original_max_position_embeddings"]
        dashed = {name.replace("_", "-"): value for name, value in numbers.items()}
        positions["rope-scaling"] = {"rope-type": rope.scaling, **dashed}
    return positions


def extensions_text(soc: str) -> str:
    """Return the configuration of the HTP backend for a SoC."""
    target = find_soc(soc)
    core = {"core_id": 0, "perf_profile": "burst", "rpc_control_latency": 100}
    device = {"soc_model": target.id, "dsp_arch": target.capabilities.name, "cores": [core]}
    return _json({"devices": [device]})


def read_bundle(folder: str | os.PathLike[str]) -> Bundle:
    """Return a bundle; its content is checked, as bundles come from anyone.

    Raises:
        StorageError: If it has no ``xdlc_llm.json`` that can be read.
        ModelError: If a fact is missing or wrong; a ProblemList of several.
    """
    place = Path(folder)
    path = place / FACTS
    if not path.is_file():
        raise StorageError(f"is no bundle: it has no {FACTS}", where=str(place), fix=_AGAIN)
    content = read_bytes(path, _LONGEST_FACTS)
    try:
        if len(content) > _LONGEST_FACTS:
            raise ValueError(f"it has more than {_LONGEST_FACTS >> 20} MiB")
        value = json_value(content.decode("utf-8"))
    except ValueError as error:
        raise ModelError(f"is not JSON: {error}", where=str(path), fix=_AGAIN) from error
    scope = Scope(str(path))
    with scope.collected():
        top = Fields(Node(value), "the bundle", scope, ("facts", "parts", "targets", "has_tokenizer"))
        for name in ("facts", "parts", "targets"):
            top.require(name, "...")
        facts = _facts(top, scope)
        count = len(top.strings("parts"))
        names = [f"decoder_{number}_of_{count}" for number in range(1, min(count, _MOST_PARTS) + 1)]
        if top.strings("parts") != tuple(f"{name}.dlc" for name in names):
            top.report("parts", "parts are not decoder_1_of_N.dlc and so on", _AGAIN)
        targets: dict[str, Target] = {}
        for name, node in top.members("targets").items():
            entry = Fields(node, f"target {name!r}", scope, ("is_shared",))
            soc = find_soc(name).name
            files = tuple(place / soc / f"{part}.bin" for part in names)
            targets[soc] = Target(files, entry.flag("is_shared"))
        tokenizer = place / TOKENIZER if top.flag("has_tokenizer") else None
    assert facts is not None  # or a problem was raised
    return Bundle(place, facts, tuple(place / f"{name}.dlc" for name in names), targets, tokenizer)


def _facts(top: Fields, scope: Scope) -> Facts | None:
    """Return the facts; None after a report."""
    node = top.node("facts")
    if node is None:
        return None
    entry = Fields(node, "facts", scope, [member.name for member in fields(Facts)])
    if not entry.ok:
        return None
    values: dict[str, Any] = {}
    for member in fields(Facts):
        if entry.value(member.name) is None:
            if member.default is MISSING and member.default_factory is MISSING:
                entry.require(member.name, "...")
            continue
        if member.type == "int":
            values[member.name] = _count(entry, member.name)
        elif member.type in ("str", "str | None"):
            values[member.name] = entry.text(member.name)
    if entry.value("bos") is not None:
        values["bos"] = entry.whole("bos")
    values["eos"] = tuple(entry.wholes("eos") or ()) if entry.value("eos") != [] else ()
    values["checks"] = entry.strings("checks")
    special = entry.members("special")
    values["special"] = {name: text.value for name, text in special.items() if isinstance(text.value, str)}
    figures = Fields(entry.node("perplexities") or Node({}), "perplexities", scope)
    values["perplexities"] = {name: figures.number(name) or 0.0 for name in entry.members("perplexities")}
    if (rope := entry.node("rope")) is not None and rope.value is not None:
        values["rope"] = _rope(Fields(rope, "rope", scope, ("theta", "dim", "scaling", "facts")))
    if entry.is_faulty:
        return None
    facts = Facts(**values)
    if facts.prompt_tokens >= facts.context:
        entry.report("prompt_tokens", "prompt_tokens has to be below context", _AGAIN)
    return facts


def _count(entry: Fields, name: str) -> int:
    number = entry.whole(name)
    if number is not None and not 0 < number <= _MOST_TOKENS:
        entry.report(name, f"{name} has to be from 1 to {_MOST_TOKENS}, found {number}", _AGAIN)
    return number or 0


def _rope(entry: Fields) -> Rope:
    dim, theta = _count(entry, "dim"), entry.number("theta") or 0.0
    if dim % 2 or theta <= 0:
        entry.report("dim", "rope needs an even dim and a positive theta", _AGAIN)
    scaling = entry.one_of("scaling", _SCALINGS) or "default"
    facts: dict[str, Any] = {}
    stated = Fields(entry.node("facts") or Node({}), "facts of rope", entry.scope)
    for name in (*_SCALINGS[scaling], *(["attention_factor"] if "attention_factor" in stated else [])):
        stated.require(name, "8.0")
        numbers = stated.numbers(name) or [0.0]
        if len(numbers) != (dim // 2 if name in _BY_PAIR else 1) or min(numbers) <= 0:
            stated.report(name, f"{name} has to be positive, of as many numbers as it scales", _AGAIN)
        number = int(numbers[0]) if name.endswith("embeddings") else numbers[0]
        facts[name] = numbers if name in _BY_PAIR else number
    return Rope(theta, dim, scaling, facts)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem, fix = f"cannot be made: {error.strerror or error}", "choose a folder that you may write to"
        raise StorageError(problem, where=str(folder), fix=fix) from error


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1) + "\n"
