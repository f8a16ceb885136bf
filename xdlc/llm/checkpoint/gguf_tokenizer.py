"""Tokenizers of GGUF files, as tokenizer.json.

Two kinds exist: byte-level BPE with merges (``gpt2``), whose text is split before by a pattern that the file
names, and SentencePiece's BPE (``llama``), whose merges follow from the scores of its tokens.  Patterns are
those that the original tokenizer.json files have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from xdlc.errors import ModelError
from xdlc.json_fields import shown
from xdlc.llm.checkpoint.texts import check_tokenizer

_MOST_TOKENS = 1 << 19
_MOST_CHARACTERS = 1 << 23
_MOST_MERGED = 5 << 19
"""Characters of tokens whose merges are searched; Gemma's have 1.4 million."""
_LONGEST = 256
"""Characters of a token that merges make."""
_NORMAL, _UNKNOWN, _CONTROL, _USER = 1, 2, 3, 4
"""Types of tokens, of llama.cpp's llama_token_type."""
_SPACE = "\u2581"
_AGAIN = "convert the source checkpoint with a recent llama.cpp"

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT4O = (
    rf"{_BEFORE}{_UPPER}*{_LOWER}+{_CONTRACTIONS}?|{_BEFORE}{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
    rf"|\p{{N}}{{1,3}}{_CASED_REST}"
)
_TEKKEN = rf"{_BEFORE}{_UPPER}*{_LOWER}+|{_BEFORE}{_UPPER}+{_LOWER}*|\p{{N}}{_CASED_REST}"
_LLAMA3 = rf"{_CONTRACTIONS}|{_BEFORE}\p{{L}}+|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{_CONTRACTIONS}|{_BEFORE}\p{{L}}+|\p{{N}}|{_REST}"
_DIGITS = "digits"
_SPLITS = {
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "dbrx", "smaug-bpe", "pixtral"), _LLAMA3),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2"), _QWEN2),
    **dict.fromkeys(("gpt-4o", "llama4"), _GPT4O),
    "tekken": _TEKKEN,
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "exaone", "codeshell"), _DIGITS),
    **dict.fromkeys(("gpt-2", "phi-2", "olmo", "mpt", "jais", "default"), ""),
}
"""Patterns by ``tokenizer.ggml.pre``; "": GPT-2's, which tokenizers' ByteLevel has."""
_WHOLE_TOKENS = frozenset(("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "tekken"))
"""Names of patterns whose tokenizers look a piece up before merging, and that begin with a bos token."""


def tokenizer_json(metadata: Mapping[str, Any], where: str) -> tuple[bytes | None, str]:
    """Return tokenizer.json of a file, or None and the reason.

    Raises:
        ModelError: If its parts do not fit each other.
    """
    stated = metadata.get("tokenizer.huggingface.json")
    if isinstance(stated, str):
        content = stated.encode()
        check_tokenizer(content, f"{where}: tokenizer.huggingface.json")
        return content, ""
    kind, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre", "default")
    hint = "; to use texts, build from the Hugging Face folder, with tokenizer.json"
    if kind not in ("gpt2", "llama"):
        return None, f"the tokenizer has the kind {shown(str(kind))}; xdlc supports gpt2 and llama{hint}"
    if kind == "gpt2" and (not isinstance(pre, str) or pre not in _SPLITS):
        return None, f"the tokenizer splits text by {shown(str(pre))}, which xdlc does not support{hint}"
    fields = _Fields(metadata, where)
    whole = _byte_level(fields, pre) if kind == "gpt2" else _sentencepiece(fields)
    notice = ""
    if kind == "gpt2" and pre == "default":
        notice = "the file does not state how the tokenizer splits text; xdlc splits like GPT-2"
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode(), notice


class _Fields:
    """The tokens of a file, with what is stated of each."""

    def __init__(self, metadata: Mapping[str, Any], where: str) -> None:
        self._metadata, self._where = metadata, where
        self.tokens: list[str] = self._list("tokens", str)
        count = len(self.tokens)
        if not 0 < count <= _MOST_TOKENS or sum(map(len, self.tokens)) > _MOST_CHARACTERS:
            raise self.fault(f"has {count} tokens, but needs 1 to {_MOST_TOKENS}")
        self.types: list[int] = self._list("token_type", int) or [_NORMAL] * count
        self.scores: list[float] = self._list("scores", float) or [0.0] * count
        if not len(self.types) == len(self.scores) == count:
            raise self.fault(f"has {len(self.types)} types and {len(self.scores)} scores, but {count} tokens")
        self.merges: list[str] = self._list("merges", str)
        if str(metadata.get("general.architecture")).startswith("gemma"):
            self.scores = [float(-index) for index in range(count)]  # its merges have the order of tokens

    def fault(self, problem: str) -> ModelError:
        return ModelError(f"its tokenizer {problem}", where=self._where, fix=_AGAIN)

    def _list(self, key: str, form: type) -> list[Any]:
        values = self._metadata.get(f"tokenizer.ggml.{key}", [])
        if not isinstance(values, list) or not all(type(value) is form for value in values):
            raise self.fault(f"has {key}, not an array of {form.__name__}")
        return values

    def flag(self, key: str, otherwise: bool) -> bool:
        value = self._metadata.get(f"tokenizer.ggml.{key}", otherwise)
        return value if isinstance(value, bool) else otherwise

    def special(self, name: str) -> str | None:
        """Return a special token; None if it is omitted."""
        index = self._metadata.get(f"tokenizer.ggml.{name}_token_id")
        if index is None:
            return None
        if type(index) is not int or not 0 <= index < len(self.tokens):
            raise self.fault(f"has {index!r} as {name} token, but {len(self.tokens)} tokens")
        return self.tokens[index]

    def added(self) -> list[dict[str, Any]]:
        """Return the tokens that text is searched for before anything else."""
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        return [
            {"id": index, "content": token, **flags, "special": kind != _USER}
            for index, (token, kind) in enumerate(zip(self.tokens, self.types, strict=True))
            if kind in (_UNKNOWN, _CONTROL, _USER) and token.strip(_SPACE + " ")
        ]

    def whole(self, model: Mapping[str, Any], adds_bos: bool, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Return tokenizer.json of a model and the parts around it."""
        bos = self.special("bos") if self.flag("add_bos_token", adds_bos) else None
        eos = self.special("eos") if self.flag("add_eos_token", False) else None
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": self.added(),
            "normalizer": parts.get("normalizer"),
            "pre_tokenizer": parts.get("pre_tokenizer"),
            "post_processor": self._template(bos, eos) or parts.get("post_processor"),
            "decoder": parts.get("decoder"),
            "model": {
                "type": "BPE",
                "dropout": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                **model,
            },
        }

    def _template(self, bos: str | None, eos: str | None) -> dict[str, Any] | None:
        """Return what adds tokens around a text, or around two."""
        if bos is None and eos is None:
            return None

        def around(names: Sequence[str]) -> list[dict[str, Any]]:
            pieces: list[dict[str, Any]] = []
            for index, name in enumerate(names):
                before = [{"SpecialToken": {"id": bos, "type_id": index}}] if bos is not None else []
                after = [{"SpecialToken": {"id": eos, "type_id": index}}] if eos is not None else []
                pieces += [*before, {"Sequence": {"id": name, "type_id": index}}, *after]
            return pieces

        special = {
            token: {"id": token, "ids": [self.tokens.index(token)], "tokens": [token]}
            for token in (bos, eos)
            if token is not None
        }
        return {
            "type": "TemplateProcessing",
            "single": around("A"),
            "pair": around("AB"),
            "special_tokens": special,
        }


def _byte_level(fields: _Fields, pre: str) -> dict[str, Any]:
    """Return a BPE over bytes, whose merges the file has."""
    vocab = {token: index for index, token in enumerate(fields.tokens)}
    for merge in fields.merges:
        left, _, right = merge.partition(" ")
        if left not in vocab or right not in vocab or left + right not in vocab:
            raise fields.fault(f"merges {shown(merge)}, but lacks these tokens or their result")
    is_whole = pre in _WHOLE_TOKENS
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    pattern = _SPLITS[pre]
    if pattern == _DIGITS:
        before: list[dict[str, Any]] = [{"type": "Digits", "individual_digits": True}]
    elif pattern:
        before = [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}]
    else:
        before = []
    uses_own = pattern in ("", _DIGITS)
    splits = [*before, {**level, "use_regex": uses_own}]
    parts = {
        "normalizer": {"type": "NFC"} if pattern == _QWEN2 else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": splits},
        "post_processor": {**level, "use_regex": uses_own},
        "decoder": {**level, "add_prefix_space": True, "use_regex": True},
    }
    model = {
        "unk_token": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": is_whole,
        "vocab": vocab,
        "merges": [merge.split(" ", 1) for merge in fields.merges],
    }
    return fields.whole(model, is_whole, parts)


def _sentencepiece(fields: _Fields) -> dict[str, Any]:
    """Return SentencePiece's BPE, with bytes in place of unknown characters."""
    tokens = [_SPACE * len(token) if token and not token.strip(" ") else token for token in fields.tokens]
    vocab = {token: index for index, token in enumerate(tokens)}
    has_prefix = fields.flag("add_space_prefix", True)
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    prepend = [{"type": "Prepend", "prepend": _SPACE}] if has_prefix else []
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if has_prefix else []
    back = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
    parts = {
        "normalizer": {"type": "Sequence", "normalizers": [*prepend, replace]},
        "decoder": {
            "type": "Sequence",
            "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip],
        },
    }
    unknown = fields.special("unknown") or next(
        (token for token, kind in zip(tokens, fields.types, strict=True) if kind == _UNKNOWN), None
    )
    model = {
        "unk_token": unknown,
        "fuse_unk": True,
        "byte_fallback": True,
        "ignore_merges": False,
        "vocab": vocab,
        "merges": [merge.split(" ", 1) for merge in fields.merges] or _merges(fields, tokens, vocab),
    }
    return fields.whole(model, True, parts)


def _merges(fields: _Fields, tokens: Sequence[str], vocab: Mapping[str, int]) -> list[list[str]]:
    """Return the pairs that make tokens, those of the best token first.

    Scores of SentencePiece's BPE are negated ranks. A pair whose parts come first precedes the other pairs of
    its token.
    """
    if sum(map(len, tokens)) > _MOST_MERGED:
        raise fields.fault(f"has tokens with more than {_MOST_MERGED} characters in sum")
    pairs: list[tuple[float, int, int, int]] = []
    for index, (token, score, kind) in enumerate(zip(tokens, fields.scores, fields.types, strict=True)):
        if kind in (_UNKNOWN, _CONTROL) or vocab[token] != index:
            continue
        for cut in islice(range(1, len(token)), _LONGEST):
            left = vocab.get(token[:cut])
            right = None if left is None else vocab.get(token[cut:])
            if left is not None and right is not None:
                pairs.append((-score, index, left, right))
    pairs.sort()
    return [[tokens[left], tokens[right]] for _, _, left, right in pairs]
