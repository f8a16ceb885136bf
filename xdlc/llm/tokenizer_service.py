"""Service of ``xdlc.worker`` with a tokenizer and chat templates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from xdlc.errors import BackendError, ModelError, UsageError

_LONGEST_TEXT = 16 << 20
_AGAIN = "use the tokenizer.json of the checkpoint"


def commands() -> dict[str, Callable[[dict[str, Any], list[int]], dict[str, Any]]]:
    """Return the functions of the process by request."""
    service = _Texts()
    return {
        "open": service.open,
        "encode": service.encode,
        "decode": service.decode,
        "render": service.render,
    }


class _Texts:
    """The tokenizer of the process."""

    def __init__(self) -> None:
        self._tokenizer: Any = None

    def open(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """Load a tokenizer from a file."""
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise BackendError(
                "texts need the package tokenizers, which is not installed", fix="pip install tokenizers"
            ) from error
        with open(files[0], "rb") as file:
            file.seek(0)
            content = file.read()
        try:
            self._tokenizer = Tokenizer.from_buffer(content)
        except Exception as error:  # the library raises Exception itself
            raise ModelError(f"the tokenizer cannot be read: {error}", fix=_AGAIN) from error
        return {"vocab": self._tokenizer.get_vocab_size()}

    def encode(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        special = request["special"]
        try:
            return {"tokens": self._tokenizer.encode(request["text"], add_special_tokens=special).ids}
        except (UnicodeEncodeError, TypeError) as error:
            raise UsageError(f"the text is not UTF-8: {error}"[:200], fix="write it in UTF-8") from error

    def decode(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        try:
            return {"text": self._tokenizer.decode(request["tokens"], skip_special_tokens=True)}
        except Exception as error:  # likewise
            raise ModelError(f"the tokenizer cannot decode the tokens: {error}", fix=_AGAIN) from error

    def render(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """Return a conversation as text, by a template in Jinja's sandbox."""
        from datetime import datetime

        from jinja2 import TemplateError
        from jinja2.ext import Extension
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def refuse(message: str) -> None:
            raise UsageError(f"the chat template rejects the conversation: {message}"[:500])

        class Generation(Extension):
            """The block that templates put around answers, for training."""

            tags: ClassVar[set[str]] = {"generation"}  # type: ignore[misc]

            def parse(self, parser: Any) -> Any:
                """Return what the block has."""
                parser.stream.skip(1)
                return parser.parse_statements(("name:endgeneration",), drop_needle=True)

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
        )
        environment.globals |= {"raise_exception": refuse, "strftime_now": datetime.now().strftime}
        words = {name: self._tokenizer.id_to_token(token) or "" for name, token in request["special"].items()}
        values = {**words, "messages": request["messages"], "add_generation_prompt": True}
        try:
            parts, size = [], 0
            for part in environment.from_string(request["template"]).generate(**values):
                size += len(part)
                if size > _LONGEST_TEXT:
                    raise ModelError(
                        f"the chat template writes more than {_LONGEST_TEXT >> 20} MiB, the limit of xdlc"
                    )
                parts.append(part)
        except (
            TemplateError,
            ValueError,
            TypeError,
            ArithmeticError,
            LookupError,
            AttributeError,
            RecursionError,
        ) as error:
            raise ModelError(f"the chat template fails: {error}"[:500], fix="correct the template") from error
        return {"text": "".join(parts)}
