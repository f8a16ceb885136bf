"""Tokenizer, chat template and settings beside the weights of a decoder."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdlc.converter.weights import beside
from xdlc.errors import ModelError, UsageError
from xdlc.ir.files import read_bytes
from xdlc.llm.checkpoint.model import json_object
from xdlc.options import spell

_MOST_CONFIG = 1 << 22
_MOST_TOKENIZER = 48 << 20
_MOST_VALUES = 1 << 18
_MOST_TOKENIZER_VALUES = 5 << 19
"""Values of a tokenizer.json; Gemma's has 1.8 million."""
_MODELS = ("BPE", "Unigram", "WordPiece", "WordLevel")


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts beside a decoder's weights.

    Attributes:
        chat_template: Template of prompts.
        generation: Content of generation_config.json.
        notices: What is missing.
    """

    tokenizer: bytes | None = None
    chat_template: str | None = None
    generation: dict[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def read_texts(folder: Path, name: str = "tokenizer.json") -> Texts:
    """Read the tokenizer, the chat template and the settings of a folder.

    Args:
        name: Name of the tokenizer's file.

    Raises:
        ModelError: If one is damaged.
    """
    template = _text(folder, "chat_template.jinja")
    settings = json_file(folder, "tokenizer_config.json") or {}
    tokenizer = _content(folder, name, _MOST_TOKENIZER)
    notices: tuple[str, ...] = ()
    if tokenizer is not None:
        check_tokenizer(tokenizer, str(folder / name))
    elif any((folder / vocabulary).is_file() for vocabulary in ("tokenizer.model", "vocab.json")):
        notices = (
            f"{folder}: its tokenizer has no tokenizer.json; write it with transformers: "
            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
        )
    generation = json_file(folder, "generation_config.json") or {}
    return Texts(tokenizer, template or _template(settings.get("chat_template")), generation, notices)


def _content(folder: Path, name: str, most: int) -> bytes | None:
    """Return the bytes of a file of the folder; None if it does not exist."""
    if not (folder / name).is_file():
        return None
    where = str(folder / name)
    content = read_bytes(beside(folder / "config.json", name, where), most)
    if len(content) > most:
        raise ModelError(f"has more than {most} bytes", where=where, fix="get the file again")
    return content


def json_file(folder: Path, name: str) -> dict[str, Any] | None:
    """Return the members of a JSON file of a folder; None if it does not exist."""
    content = _content(folder, name, _MOST_CONFIG)
    return None if content is None else json_object(content, str(folder / name), _MOST_VALUES)


def _text(folder: Path, name: str) -> str | None:
    content = _content(folder, name, _MOST_CONFIG)
    try:
        return None if content is None else content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(
            f"is not UTF-8: {error}", where=str(folder / name), fix="get the file again"
        ) from error


def _template(stated: Any) -> str | None:
    """Return the chat template of tokenizer_config.json, the default of several."""
    if isinstance(stated, list):
        by_name = {
            entry.get("name"): entry.get("template")
            for entry in stated
            if isinstance(entry, dict) and isinstance(entry.get("name"), str)
        }
        stated = by_name.get("default")
    return stated if isinstance(stated, str) else None


def texts_of(tokenizer: Any) -> Texts:
    """Return what a caller states of the tokenizer.

    Args:
        tokenizer: A tokenizer of transformers, the content of tokenizer.json, or the path of it or of its
            folder.

    Raises:
        UsageError: If it is something else, or has no tokenizer.json.
        ModelError: If it is damaged.
        StorageError: If it cannot be read.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        return Texts(backend.to_str().encode(), _template(getattr(tokenizer, "chat_template", None)))
    if isinstance(tokenizer, bytes):
        check_tokenizer(tokenizer, spell("tokenizer"))
        return Texts(tokenizer)
    texts = Texts()
    if isinstance(tokenizer, str | os.PathLike):
        path = Path(tokenizer)
        texts = read_texts(path) if path.is_dir() else read_texts(path.parent, path.name)
    if texts.tokenizer is None:
        raise UsageError(
            f"{spell('tokenizer')} is {str(tokenizer)[:80]!r}, which has no tokenizer.json",
            fix="name a tokenizer.json, or a folder that has one",
        )
    return texts


def check_tokenizer(content: bytes, where: str) -> None:
    """Check that untrusted bytes are a tokenizer.json with a model and its vocabulary.

    Raises:
        ModelError: If they are not.
    """
    model = json_object(content, where, _MOST_TOKENIZER_VALUES).get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(vocabulary, dict | list) or not vocabulary:
        raise ModelError(
            "the tokenizer has no model with a vocabulary", where=where, fix="get tokenizer.json again"
        )
    kind = model.get("type", "BPE") if isinstance(model, dict) else None
    if kind not in _MODELS:
        raise ModelError(
            f"the tokenizer has type {str(kind)[:40]!r}", where=where, fix=f"use one of {', '.join(_MODELS)}"
        )
    if isinstance(vocabulary, dict) and not all(
        type(token) is int and 0 <= token < 1 << 24 for token in vocabulary.values()
    ):
        raise ModelError(
            "the tokenizer has tokens whose ids are not whole numbers",
            where=where,
            fix="get tokenizer.json again",
        )


def begins_texts(content: bytes, where: str) -> bool:
    """Return whether a tokenizer.json puts a token in front of every text.

    Configs of models name one too where their tokenizers do not, as those of Qwen and GPT-2.

    Raises:
        ModelError: If it is not a JSON object.
    """
    waiting = [json_object(content, where, _MOST_TOKENIZER_VALUES).get("post_processor")]
    while waiting:
        step = waiting.pop()
        if not isinstance(step, dict):
            continue
        if step.get("type") in ("BertProcessing", "RobertaProcessing"):
            return True
        parts, steps = step.get("single"), step.get("processors")
        if isinstance(parts, list) and parts and isinstance(parts[0], dict) and "SpecialToken" in parts[0]:
            return True
        waiting += steps if isinstance(steps, list) else []
    return False
