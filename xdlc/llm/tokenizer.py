"""Tokenizers and chat templates, in a child process with limits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from xdlc.errors import ModelError, StorageError, XdlcError
from xdlc.ir.files import open_file, read_bytes
from xdlc.worker.process import ChildDiedError, Process, Served

SERVICE = "xdlc.llm.tokenizer_service"
LONGEST = 64 << 20
"""Most bytes of a ``tokenizer.json``."""
SECONDS, MEMORY = 60.0, 4 << 30
"""Limits of a request: seconds of the processor, and bytes beside those that the child has."""
LONGEST_TEXT = 8 << 20
"""Bytes of a text that is tokenized at once: more may need more than ``MEMORY``."""
_RENDERING = 5.0
_UNFINISHED = "\N{REPLACEMENT CHARACTER}"


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the beginning of a text in UTF-8, at most ``LONGEST_TEXT`` bytes."""
    return read_bytes(path, LONGEST_TEXT)[:LONGEST_TEXT].decode("utf-8", "replace")


class Tokenizer(Served):
    """A tokenizer, with the chat template of its model.

    Args:
        path: The file ``tokenizer.json``.
        template: The chat template; None: a conversation is its texts.
        special: Tokens whose texts templates use, by names like ``bos_token``.

    Raises:
        BackendError: If the package tokenizers is missing.
        ModelError: If the file is damaged.
        StorageError: If it cannot be read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        template: str | None = None,
        special: Mapping[str, int] | None = None,
    ) -> None:
        self._where, self._template, self._special = os.fspath(path), template, dict(special or {})
        with open_file(path) as file:
            if os.fstat(file.fileno()).st_size > LONGEST:
                fix = "use the tokenizer.json of the checkpoint"
                raise StorageError(
                    f"the tokenizer has more than {LONGEST >> 20} MiB, the limit of xdlc",
                    where=self._where,
                    fix=fix,
                )
            self._process = Process(SERVICE, {"TOKENIZERS_PARALLELISM": "false"})
            with ExitStack() as opening:
                opening.callback(self._process.end)
                self.vocab: int = self._ask("open", [file.fileno()])["vocab"]
                opening.pop_all()

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Return the tokens of a text; ``special``: with those that begin a text."""
        tokens: list[int] = self._ask("encode", text=text, special=special)["tokens"]
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special ones."""
        text: str = self._ask("decode", tokens=list(tokens))["text"]
        return text

    def pieces(self, tokens: Iterable[int]) -> Iterator[str]:
        """Yield the text of tokens as it becomes certain: a character may have several."""
        pending: list[int] = []
        shown = ""
        for token in tokens:
            pending.append(token)
            text = self.decode(pending)
            if text.endswith(_UNFINISHED):
                continue
            yield text[len(shown) :]
            # The last character stays: decoders write tokens otherwise at the beginning of a text.
            kept = 1
            while _UNFINISHED in (shown := self.decode(pending[-kept:])) and kept < len(pending):
                kept += 1
            pending = pending[-kept:]
        if pending and (rest := self.decode(pending)[len(shown) :]):
            yield rest

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Return the tokens of a conversation, up to the beginning of the answer.

        Args:
            messages: Role and content of each message.

        Raises:
            UsageError: If the template refuses it.
            ModelError: If the template fails, or takes too long.
        """
        if self._template is None:
            return self.encode("\n".join(message["content"] for message in messages))
        request: dict[str, Any] = {
            "template": self._template,
            "messages": list(messages),
            "special": self._special,
        }
        text = self._ask("render", seconds=_RENDERING, **request)["text"]
        return self.encode(text, special=False)

    def _ask(
        self, command: str, files: Sequence[int] = (), seconds: float | None = None, **request: Any
    ) -> dict[str, Any]:
        limits = {"seconds": seconds or SECONDS, "memory": MEMORY}
        try:
            return self._process.ask(
                {"do": command, **request, **limits}, files, timeout=4 * limits["seconds"]
            )
        except ChildDiedError as error:
            problem = f"a process with the tokenizer or the chat template {error.how}{error.tail}"
            fix = "use tokenizer.json and the chat template of the original checkpoint"
            raise ModelError(problem, where=self._where, fix=fix) from error
        except XdlcError as error:
            error.where = error.where or self._where
            raise
