"""Tokenizers in the form of tokenizer.json, the file of Hugging Face's tokenizers."""

from __future__ import annotations

from xdlc.errors import ModelError
from xdlc.llm.checkpoint.model import json_object

_MOST_VALUES = 5 << 19
"""Values of a tokenizer.json; Gemma's has 1.8 million."""
_MODELS = ("BPE", "Unigram", "WordPiece", "WordLevel")


def check_tokenizer(content: bytes, where: str) -> None:
    """Check that untrusted bytes are a tokenizer.json with a model and its vocabulary.

    Raises:
        ModelError: If they are not.
    """
    model = json_object(content, where, _MOST_VALUES).get("model")
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
    waiting = [json_object(content, where, _MOST_VALUES).get("post_processor")]
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
