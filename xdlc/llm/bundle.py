"""Bundles: folders of language models for the vendor's runtime, with facts."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from xdlc.errors import ModelError, StorageError
from xdlc.ir import Model
from xdlc.ir.files import read_bytes, replace_file
from xdlc.json_fields import Fields, Node, Scope, json_bytes
from xdlc.llm import genai
from xdlc.llm.checkpoint.model import json_object
from xdlc.llm.decoder import BY_PAIR, MOST_MAGNITUDE, SCALINGS, Rope
from xdlc.llm.readme import readme
from xdlc.targets import find_soc

FACTS, TOKENIZER, README = "xdlc_llm.json", "tokenizer.json", "README.md"
CONFIG, EXTENSIONS = "genie_config.json", "htp_backend_ext_config.json"
FORM = 1
"""Form of the facts; one with other keys has another number."""
_LONGEST_FACTS = 1 << 25  # a template of a GGUF file has 16 MiB at most
_MOST_VALUES = 1 << 20
_MOST_TOKENS = 1 << 24
_MOST_PARTS = 256
_AGAIN = "build the bundle again: xdlc llm build SOURCE -o BUNDLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about a language model that its runtime has to know.

    Attributes:
        family: Family of the decoder, like ``llama``.
        vocab: Number of tokens that the logits are of.
        context: Tokens of the longest context.
        prompt_tokens: Tokens that the prompt graph reads at a time.
        kv_heads: Heads of keys and values.
        head_dim: Elements of a head.
        weights: Form of the weights, like ``w4``.
        kv_bits: Bits of a cached element.
        rope: Rotary positions as inputs of the graph; None if it computes positions from ``position_ids``.
        bos: Token that every text begins with; None without one.
        eos: Tokens that end an answer.
        chat_template: Template of a conversation, in Jinja.
        checks: Sentences on what was verified.
        shorter_contexts: Tokens of other contexts that there are graphs for.
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
    checks: tuple[str, ...] = ()
    shorter_contexts: tuple[int, ...] = ()

    @property
    def longest_prompt(self) -> int:
        """Most tokens of a prompt that the vendor's runtime processes, padded."""
        return self.context - max(self.prompt_tokens - 1, 1)


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
        parts: The DLCs, in the order of the layers.
        targets: Context binaries by SoC.
        tokenizer: The tokenizer's file; None without one.
    """

    folder: Path
    facts: Facts
    parts: tuple[Path, ...]
    targets: Mapping[str, Target]
    tokenizer: Path | None


def part_path(folder: Path, number: int, count: int) -> Path:
    """Return the DLC of a part, by its number from 1."""
    return folder / f"decoder_{number}_of_{count}.dlc"


def binary_path(folder: Path, soc: str, number: int, count: int) -> Path:
    """Return the context binary of a part for a SoC."""
    return folder / soc / part_path(folder, number, count).with_suffix(".bin").name


def write_bundle(
    folder: Path,
    facts: Facts,
    parts: Sequence[Model],
    targets: Sequence[str] = (),
    tokenizer: bytes | None = None,
    *,
    is_shared: bool = False,
) -> Bundle:
    """Write what a bundle has beside its DLCs and context binaries, the facts last.

    Args:
        folder: The folder, with the files of ``part_path`` and ``binary_path``.
        parts: The models of its DLCs, in the order of the layers.
        targets: The SoCs that it has context binaries for.
        is_shared: Whether graphs of a binary share their weights.

    Raises:
        StorageError: If a file cannot be written.
    """
    files: dict[Path, bytes] = {} if tokenizer is None else {folder / TOKENIZER: tokenizer}
    for soc in targets:
        names = [path.name for path in _binaries(folder, soc, len(parts))]
        files[folder / soc / CONFIG] = json_bytes(genie_config(facts, names))
        files[folder / soc / EXTENSIONS] = extensions(soc)
        if tokenizer is not None:
            files[folder / soc / TOKENIZER] = tokenizer
        if genai.is_supported(facts, parts):
            pipeline = genai.genai_files(facts, parts, names, soc)
            files |= {folder / soc / name: content for name, content in pipeline.items()}
    bundle = _bundle(folder, facts, len(parts), dict.fromkeys(targets, is_shared), tokenizer is not None)
    record = {
        "form": FORM,
        "facts": asdict(facts),
        "parts": len(parts),
        "targets": {soc: {"is_shared": is_shared} for soc in targets},
        "has_tokenizer": tokenizer is not None,
    }
    files |= {folder / README: readme(bundle, parts).encode(), folder / FACTS: json_bytes(record)}
    for path, content in files.items():
        replace_file(path, content)
    return bundle


def _bundle(
    folder: Path, facts: Facts, count: int, targets: Mapping[str, bool], has_tokenizer: bool
) -> Bundle:
    """Return a bundle; ``targets`` states whether graphs share weights, by SoC."""
    parts = tuple(part_path(folder, number, count) for number in range(1, count + 1))
    binaries = {soc: Target(_binaries(folder, soc, count), shared) for soc, shared in targets.items()}
    return Bundle(folder, facts, parts, binaries, folder / TOKENIZER if has_tokenizer else None)


def _binaries(folder: Path, soc: str, count: int) -> tuple[Path, ...]:
    return tuple(binary_path(folder, soc, number, count) for number in range(1, count + 1))


def genie_config(facts: Facts, binaries: Sequence[str]) -> dict[str, Any]:
    """Return the configuration of a dialog, as ``genie_config.json`` has it."""
    backend = {"mmap-budget": 0, "poll": True, "cpu-mask": "0xe0", "kv-dim": facts.head_dim}
    positions = {"positional-encoding": _positions(facts.rope)}
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
            "engine": engine(backend, binaries, positions),
        }
    }


def engine(
    backend: Mapping[str, Any], binaries: Sequence[str], more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the engine of a configuration.

    Args:
        backend: What the backend has beside what all have.
        more: What the model has beside them.
    """
    always = {"version": 1, "use-mmap": True, "spill-fill-bufsize": 0, "allow-async-init": False}
    htp = {"type": "QnnHtp", "QnnHtp": {**always, **backend}, "extensions": EXTENSIONS}
    model = {"type": "binary", "binary": {"version": 1, "ctx-bins": list(binaries)}, **(more or {})}
    return {
        "version": 1,
        "n-threads": 3,
        "backend": {"version": 1, **htp},
        "model": {"version": 1, **model},
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
        numbers = {name: rope.facts[name] for name in SCALINGS[rope.scaling]}
        if rope.scaling == "longrope":  # the runtime multiplies by sqrt(1 + log(factor) / log(trained))
            power = numbers.pop("attention_factor") ** 2 - 1
            numbers["factor"] = numbers["original_max_position_embeddings"] ** power
        dashed = {name.replace("_", "-"): value for name, value in numbers.items()}
        positions["rope-scaling"] = {"rope-type": rope.scaling, **dashed}
    return positions


def extensions(soc: str) -> bytes:
    """Return the configuration of the HTP backend for a SoC."""
    target = find_soc(soc)
    core = {"core_id": 0, "perf_profile": "burst", "rpc_control_latency": 100}
    device = {"soc_model": target.id, "dsp_arch": target.capabilities.name, "cores": [core]}
    return json_bytes({"devices": [device]})


def read_bundle(folder: str | os.PathLike[str]) -> Bundle:
    """Return a bundle; its content is checked, as bundles come from anyone.

    Raises:
        StorageError: If it has no ``xdlc_llm.json`` that can be read.
        ModelError: If a fact is missing or wrong; a ProblemList of several.
    """
    place = Path(folder)
    path = place / FACTS
    if not path.is_file():
        raise StorageError(f"is not a bundle: the folder has no {FACTS}", where=str(place), fix=_AGAIN)
    value = json_object(read_bytes(path, _LONGEST_FACTS), str(path), _MOST_VALUES)
    form = value.get("form", 0)
    if form != FORM:
        release = "a newer" if isinstance(form, int) and form > FORM else "an older"
        raise ModelError(f"{release} release of xdlc built this bundle", where=str(path), fix=_AGAIN)
    scope = Scope(str(path))
    with scope.collected():
        top = Fields(Node(value), "the bundle", scope, ("form", "facts", "parts", "targets", "has_tokenizer"))
        for name in ("facts", "parts", "targets"):
            top.require(name, "...")
        facts, count = _facts(top, scope), top.whole("parts") or 0
        if not 0 < count <= _MOST_PARTS:
            top.report("parts", f"the bundle has {count} parts; xdlc supports 1 to {_MOST_PARTS}", _AGAIN)
        targets: dict[str, bool] = {}
        for name, node in top.members("targets").items():
            entry = Fields(node, f"target {name!r}", scope, ("is_shared",))
            targets[find_soc(name).name] = entry.flag("is_shared")
        has_tokenizer = top.flag("has_tokenizer")
    assert facts is not None  # or a problem was raised
    return _bundle(place, facts, count, targets, has_tokenizer)


def _facts(top: Fields, scope: Scope) -> Facts | None:
    """Return the facts; None after a report."""
    node = top.node("facts")
    if node is None:
        return None
    if isinstance(node.value, dict):  # null is another word for a missing fact
        node = Node({name: value for name, value in node.value.items() if value is not None}, node.path)
    entry = Fields(node, "facts", scope, [member.name for member in fields(Facts)])
    if not entry.ok:
        return None
    values: dict[str, Any] = {}
    for member in fields(Facts):
        if member.name not in entry:
            if member.default is MISSING:
                entry.require(member.name, "...")
            continue
        if member.type == "int":
            values[member.name] = _count(entry, member.name)
        elif member.type in ("str", "str | None"):
            values[member.name] = entry.text(member.name)
    if "bos" in entry:
        values["bos"] = entry.whole("bos")
    for name in ("eos", "shorter_contexts"):
        values[name] = tuple(entry.wholes(name) or ()) if entry.value(name) != [] else ()
    values["checks"] = entry.strings("checks")
    if (rope := entry.node("rope")) is not None:
        values["rope"] = _rope(Fields(rope, "rope", scope, ("theta", "dim", "scaling", "facts")))
    if entry.is_faulty:
        return None
    facts = Facts(**values)
    if facts.prompt_tokens >= facts.context:
        entry.report("prompt_tokens", "prompt_tokens must be below context", _AGAIN)
    if not all(facts.prompt_tokens < span < facts.context for span in facts.shorter_contexts):
        problem = "shorter_contexts must be between prompt_tokens and context"
        entry.report("shorter_contexts", problem, _AGAIN)
    return facts


def _count(entry: Fields, name: str) -> int:
    number = entry.whole(name)
    if number is not None and not 0 < number <= _MOST_TOKENS:
        entry.report(name, f"{name} is {number}, but must be from 1 to {_MOST_TOKENS}", _AGAIN)
    return number or 0


def _rope(entry: Fields) -> Rope:
    dim, theta = _count(entry, "dim"), entry.number("theta") or 0.0
    if dim % 2 or theta <= 0:
        entry.report("dim", "rope needs an even dim and a positive theta", _AGAIN)
    scaling = entry.one_of("scaling", SCALINGS) or "default"
    facts: dict[str, Any] = {}
    stated = Fields(entry.node("facts") or Node({}), "facts of rope", entry.scope)
    for name in SCALINGS[scaling]:
        stated.require(name, "8.0")
        numbers = stated.numbers(name) or [0.0]
        least, most = (1, _MOST_TOKENS) if name.endswith("embeddings") else (0, math.inf)
        most = MOST_MAGNITUDE if name == "attention_factor" else most
        count = dim // 2 if name in BY_PAIR else 1
        if len(numbers) != count or not least < min(numbers) <= max(numbers) <= most:
            text = f"{name} must be {count} number(s) above {least}, and at most {most:g}"
            stated.report(name, text, _AGAIN)
        number = int(numbers[0]) if name.endswith("embeddings") else numbers[0]
        facts[name] = numbers if name in BY_PAIR else number
    return Rope(theta, dim, scaling, facts)
