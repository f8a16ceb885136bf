"""Encoders of texts for the vendor's runtime: bundles and embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xdlc.container import load
from xdlc.container.caches import caches
from xdlc.errors import ConstraintError, UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import Model, Tensor
from xdlc.ir import dtype as dt
from xdlc.ir.files import make_folder, read_bytes, replace_file
from xdlc.json_fields import json_bytes
from xdlc.llm.bundle import CONFIG, EXTENSIONS, TOKENIZER, engine, extensions
from xdlc.llm.layout import IDS, MASK, POSITIONS
from xdlc.llm.tokenizer import LONGEST, Tokenizer
from xdlc.options import DEFAULT_SOC, Notify
from xdlc.prepare.htp import prepare
from xdlc.runtime.cpu import CpuSession
from xdlc.targets import find_soc

TYPES, POOLED = "token_type_ids", "pooled_output"
_INPUTS = (IDS, MASK, TYPES, POSITIONS)
_DLC, _BINARY = "encoder.dlc", "encoder.bin"


def check_encoder(model: Model) -> tuple[int, int]:
    """Check an encoder; return its tokens and the size of the embedding.

    Raises:
        ConstraintError: If the vendor's runtime would not load it; a ProblemList of all reasons.
    """
    graph = model.main
    inputs = {tensor.name: tensor for tensor in graph.inputs}
    outputs = {tensor.name: tensor for tensor in graph.outputs}
    where = f"graph {graph.name!r}"
    problems: list[XdlcError] = []
    for name, side in {**dict.fromkeys(_INPUTS, inputs), POOLED: outputs}.items():
        if name not in side:
            fix = nearest_names(name, side) or f"inputs are {', '.join(_INPUTS)}, the output is {POOLED}"
            problems.append(
                ConstraintError(
                    f"the encoder has no {name!r}, which the vendor's runtime needs", where=where, fix=fix
                )
            )
    tokens = inputs[IDS].shape[-1] if IDS in inputs and inputs[IDS].rank else 0
    for name, tensor in inputs.items():
        if name not in _INPUTS and len(inputs) > len(_INPUTS):
            fix = f"use only the inputs {', '.join(_INPUTS)}"
            problem = "the vendor's runtime does not know this input"
            problems.append(ConstraintError(problem, where=f"{where}: input {name!r}", fix=fix))
        elif name in _INPUTS and (tensor.dtype is not dt.INT32 or tensor.shape != (1, tokens)):
            problem = (
                f"is {tensor.dtype}{list(tensor.shape)}, but the vendor's runtime writes int32[1, {tokens}]"
            )
            fix = "convert the model with int32 inputs that have equal shapes"
            problems.append(ConstraintError(problem, where=f"{where}: input {name!r}", fix=fix))
    raise_all(problems)
    return tokens, outputs[POOLED].shape[-1]


def build_encoder(
    model: Model,
    folder: Path,
    tokenizer: Path,
    *,
    targets: Sequence[str] = (DEFAULT_SOC,),
    notify: Notify = lambda text: None,
) -> None:
    """Compile an encoder; write a folder for the vendor's runtime by SoC.

    Args:
        folder: The folder to write.
        tokenizer: The file ``tokenizer.json``.

    Raises:
        ConstraintError: If the runtime would not load it.
        XdlcError: If compiling fails, or a file cannot be written.
    """
    tokens, size = check_encoder(model)
    with Tokenizer(tokenizer) as opened:
        vocab = opened.vocab
    socs = [find_soc(name).name for name in targets]
    prepared = prepare(model, socs, notify=notify)
    make_folder(folder)
    model.save(folder / _DLC)
    content = read_bytes(tokenizer, LONGEST)
    replace_file(folder / TOKENIZER, content)
    for cache in caches(prepared):
        place = folder / cache.soc
        make_folder(place)
        if cache.data is not None:
            replace_file(place / _BINARY, cache.data.write_to)
        replace_file(place / TOKENIZER, content)
        replace_file(place / EXTENSIONS, extensions(cache.soc))
        replace_file(place / CONFIG, json_bytes(_config(vocab, tokens, size)))


def _config(vocab: int, tokens: int, size: int) -> dict[str, Any]:
    return {
        "embedding": {
            "version": 1,
            "context": {
                "version": 1,
                "n-vocab": vocab,
                "ctx-size": tokens,
                "embed-size": size,
                "pad-token": 0,
            },
            "prompt": {"version": 1, "prompt-template": ["", ""]},
            "tokenizer": {"version": 1, "path": TOKENIZER},
            "truncate-input": True,
            "engine": engine({"pooled-output": True, "disable-kv-cache": True}, [_BINARY]),
        }
    }


def embedding(folder: Path, text: str, *, soc: str | None = None) -> list[float]:
    """Return the embedding of a text, or of its beginning if it is too long.

    Args:
        folder: The folder of ``build_encoder``.
        soc: SoC that the vendor's runtime emulates; None: the host.

    Raises:
        UsageError: If the bundle has no binary for the SoC.
        BackendError: If the engine is missing or fails.
    """
    if soc is None:
        return _on_host(folder, text)
    from xdlc.llm.genie import Encoder

    place = folder / find_soc(soc).name
    if not (place / _BINARY).is_file():
        fix = "build the bundle for this SoC, or choose another SoC"
        raise UsageError(f"the bundle has no context binary for {soc}", where=str(folder), fix=fix)
    tokens, size = check_encoder(load(folder / _DLC))
    with Tokenizer(place / TOKENIZER) as tokenizer:
        config = _config(tokenizer.vocab, tokens, size)
    with Encoder(place, config) as encoder:
        return encoder.embedding(text)


def _on_host(folder: Path, text: str) -> list[float]:
    model = load(folder / _DLC)
    length, _ = check_encoder(model)
    with Tokenizer(folder / TOKENIZER) as tokenizer:
        tokens = tokenizer.encode(text)[:length]

    def row(tensor: Tensor) -> Any:
        values = np.zeros((1, length), np.int32)
        filled: dict[str, Any] = {IDS: tokens, MASK: 1, TYPES: 0, POSITIONS: range(len(tokens))}
        values[0, : len(tokens)] = filled[tensor.name]
        return values

    feeds = {tensor.name: row(tensor) for tensor in model.main.inputs}
    feeds[POSITIONS] = np.arange(length, dtype=np.int32)[None]
    result = CpuSession(model).run(feeds)[POOLED]
    return [float(number) for number in result.reshape(-1)]
