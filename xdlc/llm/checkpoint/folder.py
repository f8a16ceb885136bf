"""Folders of Hugging Face and networks of transformers, without their code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.weights import beside
from xdlc.errors import ModelError, UnsupportedOp, UsageError
from xdlc.ir.files import read_bytes
from xdlc.json_fields import fits, shown
from xdlc.llm.checkpoint.model import Checkpoint, Stamp, Weight, omit_unknown_ids, stamps_of
from xdlc.llm.checkpoint.packed import packed_weights
from xdlc.llm.checkpoint.safetensors import read_safetensors
from xdlc.llm.checkpoint.texts import Texts, json_file, read_texts

_MOST_SHARDS = 1 << 10
_MOST_TENSORS = 1 << 16
_SAVE = "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(FOLDER)"
_PREFIXES = {"gpt2": "transformer."}
"""Prefix of the decoder's parameters, which checkpoints of the decoder alone omit; default: ``model.``."""
_HEAD = "lm_head."
_NESTED = {
    "language_model.model.": "model.",
    "model.language_model.": "model.",
    "language_model.lm_head.": "lm_head.",
}
"""Prefixes of a decoder's parameters in models of text and images."""
_BUFFERS = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")
"""Ends of names of tensors that old checkpoints have and that are no parameters."""


def open_folder(folder: Path) -> Checkpoint:
    """Open a folder with config.json, weights and, maybe, a tokenizer.

    Raises:
        XdlcError: As ``open_checkpoint`` does.
    """
    if not (folder / "config.json").is_file():
        raise ModelError(
            "the folder has no config.json",
            where=str(folder),
            fix="name a Hugging Face folder or a GGUF file",
        )
    config, texts = json_file(folder, "config.json") or {}, read_texts(folder)
    return assembled(str(folder), config, _weights(folder), texts, stamps_of(folder.iterdir()))


def assembled(
    where: str,
    config: dict[str, Any],
    tensors: dict[str, ir.TensorData],
    texts: Texts,
    stamps: Sequence[Stamp] = (),
) -> Checkpoint:
    """Return the checkpoint of a decoder whose parameters may have other prefixes.

    Raises:
        XdlcError: As ``open_checkpoint`` does.
    """
    family = config.get("model_type")
    if not isinstance(family, str) or not family:
        fix = "download the config.json of the model, not of an adapter"
        raise ModelError("the file has no model_type", where=f"{where}: config.json", fix=fix)
    notices: list[str] = []
    tensors = _decoder_alone(tensors, where, notices)
    prefix = _PREFIXES.get(family, "model.")
    if not any(name.startswith(prefix) for name in tensors):
        tensors = {name if name.startswith(_HEAD) else prefix + name: data for name, data in tensors.items()}
    tensors = {name: data for name, data in tensors.items() if not name.endswith(_BUFFERS)}
    stated = config.pop("quantization_config", None)
    weights: Mapping[str, Weight] = {name: Weight(data) for name, data in tensors.items()}
    if stated is not None:
        weights = packed_weights(stated, tensors, where)
    generation = _generation(config, texts.generation, where)
    unknown = omit_unknown_ids(generation, config, where)
    return Checkpoint(
        where=where,
        config=config,
        weights=weights,
        tokenizer=texts.tokenizer,
        chat_template=texts.chat_template,
        generation=generation,
        notices=(*notices, *texts.notices, *unknown),
        stamps=tuple(stamps),
    )


def _weights(folder: Path) -> dict[str, ir.TensorData]:
    """Return the tensors of a folder: those of safetensors if it has any."""
    for name, read in (("model.safetensors", read_safetensors), ("pytorch_model.bin", read_pickled)):
        if (folder / f"{name}.index.json").is_file():
            return _shards(folder, f"{name}.index.json", read)
        if (folder / name).is_file():
            return read(beside(folder / "config.json", name, str(folder)))
    raise ModelError("the folder has no model.safetensors", where=str(folder), fix="download all files")


def _shards(
    folder: Path, index: str, read: Callable[[Path], dict[str, ir.TensorData]]
) -> dict[str, ir.TensorData]:
    """Return the tensors of the files that an index names."""
    where, shards = str(folder / index), (json_file(folder, index) or {}).get("weight_map")
    if not isinstance(shards, dict) or not fits(shards, {"*": str}):
        problem = "the file has no weight_map, which names the file of each tensor"
        raise ModelError(problem, where=where, fix="get the file again")
    names = sorted(set(shards.values()))
    if len(names) > _MOST_SHARDS:
        problem = f"the index names {len(names)} files; xdlc supports at most {_MOST_SHARDS}"
        raise ModelError(problem, where=where, fix="save the model in fewer files")
    weights: dict[str, ir.TensorData] = {}
    for shard in names:
        tensors = read(beside(folder / index, shard, where))
        weights |= {name: data for name, data in tensors.items() if shards.get(name) == shard}
    missing = [name for name in shards if name not in weights]
    if missing:
        problem = (
            f"the files lack tensor {shown(missing[0])} and {len(missing) - 1} more tensors of the index"
        )
        raise ModelError(problem, where=where, fix="get the whole folder again")
    return weights


def _decoder_alone(
    tensors: dict[str, ir.TensorData], where: str, notices: list[str]
) -> dict[str, ir.TensorData]:
    """Return the tensors of a decoder, without those of images beside it."""
    nested = {}
    for name, data in tensors.items():
        for prefix, own in _NESTED.items():
            if name.startswith(prefix):
                nested[own + name.removeprefix(prefix)] = data
    if not nested:
        return tensors
    nested |= {name: data for name, data in tensors.items() if name.startswith(_HEAD)}
    notices.append(f"{where}: xdlc omits {len(tensors) - len(nested)} tensors outside the decoder")
    return nested


def _generation(config: dict[str, Any], stated: dict[str, Any], where: str) -> dict[str, Any]:
    """Return generation_config.json with token ids of config.json that it omits."""
    text = config.get("text_config") if isinstance(config.get("text_config"), dict) else {}
    ids: dict[str, list[int]] = {}
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        stated_ids = [
            source[key] for source in (stated, config, text) if source and source.get(key) is not None
        ]
        value: Any = stated_ids[0] if stated_ids else []
        ids[key] = value if isinstance(value, list) else [value]
        if not all(isinstance(token, int) and not isinstance(token, bool) for token in ids[key]):
            problem = f"{key} is neither a whole number nor a list of whole numbers"
            raise ModelError(
                problem, where=where, fix="download generation_config.json and config.json again"
            )
    first = {key: ids[key][0] if ids[key] else None for key in ("bos_token_id", "pad_token_id")}
    return {**stated, **first, "eos_token_id": ids["eos_token_id"]}


def read_pickled(path: Path) -> dict[str, ir.TensorData]:
    """Return the tensors of a file of ``torch.save`` by name; bfloat16 as float32.

    Raises:
        ModelError: If it is damaged, or has more than tensors by name.
        UnsupportedOp: If it was written by torch before 1.6, or a type is not supported.
        StorageError: If it cannot be read.
    """
    from xdlc.converter.pytorch.archive import Archive
    from xdlc.converter.pytorch.pickled import StoredTensor, unpickle
    from xdlc.converter.pytorch.tensors import unpickled

    where, fix = str(path), f"write safetensors with transformers: {_SAVE}"
    if read_bytes(path, 2)[:2] != b"PK":
        raise UnsupportedOp("the file is not an archive of torch 1.6 or newer", where=where, fix=fix)
    archive = Archive(path)
    tensors = unpickle(archive.read("data.pkl"), f"{where}: data.pkl")
    if not isinstance(tensors, dict) or len(tensors) > _MOST_TENSORS:
        raise ModelError("the file does not hold a mapping of names to tensors", where=where, fix=fix)
    weights: dict[str, ir.TensorData] = {}
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, StoredTensor) or tensor.quantizer:
            problem = f"the entry {shown(str(name))} is not a plain tensor"
            raise ModelError(problem, where=where, fix=fix)
        data = unpickled(archive, "data/", tensor, f"{where}: {shown(name)}")
        weights[name] = data.cast(np.float32) if data.dtype.name == "bfloat16" else data
    return weights


def open_module(module: Any) -> Checkpoint:
    """Return the checkpoint of a network of transformers; parameters are views.

    Raises:
        UsageError: If it has no config of transformers.
        UnsupportedOp: If parameters have a type that is not supported.
    """
    name = type(module).__name__
    config: Any = getattr(module, "config", None)
    if not (hasattr(config, "to_dict") and hasattr(module, "state_dict")):
        raise UsageError(
            f"the {name} has no config of transformers",
            fix="save its program of torch.export as .pt2, and name the file (docs/guides/llm.md)",
        )
    settings: Any = getattr(module, "generation_config", None)
    texts = Texts(generation=settings.to_dict() if hasattr(settings, "to_dict") else {})
    tensors = {key: _data(tensor, key) for key, tensor in module.state_dict().items()}
    return assembled(f"the {name}", config.to_dict(), tensors, texts)


def _data(tensor: Any, name: str) -> ir.TensorData:
    """Return the values of a tensor of torch; bfloat16 and float64 as float32."""
    import ml_dtypes
    import torch

    try:
        plain = tensor.detach().cpu()
        if plain.dtype is torch.bfloat16:
            array = plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        else:
            array = plain.numpy()
    except (AttributeError, TypeError, RuntimeError) as error:
        # no tensor, float8, meta or quantized
        raise UnsupportedOp(
            f"its values cannot be read: {str(error)[:200]}",
            where=f"parameter {name!r}",
            fix="load the model on the CPU with bfloat16, float16 or float32 weights",
        ) from error
    data = ir.ArrayData(array)
    return data.cast(np.float32) if plain.dtype in (torch.bfloat16, torch.float64) else data
