"""Advice: a line of text, and the options of the quantizer that it ends with."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Options: TypeAlias = Mapping[str, Any]
"""Keyword arguments of ``quantize``: mappings of names to bits, sequences of names, numbers or text."""


class Advice(str):
    """A line of text that ends with options, which it writes as keyword arguments.

    Attributes:
        text: The line without the options.
        options: The options to set; empty: the line has none.

    Example:
        >>> line = Advice("16-bit activations", {"act_bitwidth": 16})
        >>> str(line)
        '16-bit activations: act_bitwidth=16'
        >>> line.in_command(["xdlc-quant", "--act_bitwidth", "8"])
        '16-bit activations: xdlc-quant --act_bitwidth 16'
    """

    __slots__ = ("options", "text")
    text: str
    options: Options

    def __new__(cls, text: str, options: Options | None = None) -> Advice:
        """Return the line."""
        words = ", ".join(f"{name}={value!r}" for name, value in (options or {}).items())
        line = super().__new__(cls, f"{text}: {words}" if words else text)
        line.text, line.options = text, options or {}
        return line

    def after(self, text: str) -> Advice:
        """Return the line with text in front."""
        return Advice(f"{text}{self.text}", self.options)

    def in_command(self, command: Sequence[str]) -> str:
        """Return the line with the command line that has the options; as it is without a command line."""
        if not command or not self.options:
            return str(self)
        words = list(command)
        for name, value in self.options.items():
            if isinstance(value, Mapping):
                for key, entry in value.items():
                    words = [*_without(words, name, str(key)), f"--{name}", str(key), str(entry)]
            else:
                text = str(value) if isinstance(value, str | int | float) else ",".join(value)
                words = [*_without(words, name), f"--{name}", text]
        return f"{self.text}: {shlex.join(words)}"


def in_command(line: str, command: Sequence[str]) -> str:
    """Return a line, its advice as the command line to run."""
    return line.in_command(command) if isinstance(line, Advice) else line


def _without(words: Sequence[str], name: str, key: str | None = None) -> list[str]:
    """Return a command line without an option; of one that takes a name and bits, without that of a name.

    Args:
        words: The command line.
        name: The option's name, without dashes.
        key: The name that the option's first value has to be; None: it has one value, any.
    """
    left: list[str] = []
    index = 0
    while index < len(words):
        flag, glued, value = words[index].partition("=")
        count = (1 if key is None else 2) + (not glued) if flag == f"--{name}" else 1
        taken = words[index : index + count]
        first = value if glued else "".join(taken[1:2])
        if flag != f"--{name}" or (key is not None and first != key):
            left += taken
        index += count
    return left
