"""Dialogs of the vendor's runtime of language models, each in a child process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any

from xdlc.errors import BackendError
from xdlc.llm.genie_service import LIBRARY
from xdlc.runtime.htp.library import INSTALL, library_folder
from xdlc.worker.process import ChildDiedError, Process, Served

SERVICE = "xdlc.llm.genie_service"
OPENING = 1800.0
"""Seconds that loading the context binaries may take."""
RUNNING = 600.0
"""Seconds that the prompt, or one token, may take."""


def is_installed() -> bool:
    """Return whether this machine has the vendor's runtime of language models."""
    try:
        return (library_folder() / LIBRARY).is_file()
    except BackendError:
        return False


class _Runtime(Served):
    """The vendor's runtime in a child process.

    Args:
        folder: Folder that the relative paths of the configuration start at.
        config: Configuration as ``genie_config.json`` has it.

    Raises:
        BackendError: If the library is missing, or refuses the configuration or the binaries.
    """

    _opening = "open"

    def __init__(self, folder: str | os.PathLike[str], config: Mapping[str, Any]) -> None:
        library = library_folder()
        if not (library / LIBRARY).is_file():
            raise BackendError(f"{library} has no {LIBRARY}", fix=f"install {LIBRARY}: {INSTALL}")
        self._where = str(folder)
        self._process = Process(SERVICE)
        with ExitStack() as opening:
            opening.callback(self._process.end)
            text, place = json.dumps(config), str(Path(folder).absolute())
            self._ask(self._opening, OPENING, config=text, folder=place, library=str(library))
            opening.pop_all()

    def _ask(self, command: str, timeout: float, **request: Any) -> dict[str, Any]:
        try:
            return self._process.ask({"do": command, **request}, timeout=timeout)
        except ChildDiedError as error:
            problem = f"the vendor's runtime of language models {error.how}{error.tail}"
            raise BackendError(problem, where=self._where) from error
        except BackendError as error:
            printed = "; ".join(self._process.printed() if self._process.is_alive else ())
            problem = f"{error.problem}; it printed {printed!r}" if printed else error.problem
            raise BackendError(problem, where=error.where or self._where, fix=error.fix) from error


class Encoder(_Runtime):
    """An encoder on the emulation of a SoC; see ``_Runtime``."""

    _opening = "open_encoder"

    def embedding(self, text: str) -> list[float]:
        numbers: list[float] = self._ask("embed", RUNNING, text=text)["numbers"]
        return numbers


class Dialog(_Runtime):
    """A conversation on the emulation of a SoC; see ``_Runtime``."""

    def tokens(self, prompt: Sequence[int], most: int) -> Iterator[int]:
        """Yield the tokens of an answer as they come; the last may be an end token.

        Args:
            prompt: Token ids; the library puts the first token of the vocabulary's texts in front by itself.
            most: Largest number of tokens.
        """
        self._ask("start", RUNNING, tokens=[int(token) for token in prompt], most=most)
        until, is_done = monotonic() + RUNNING, False
        try:
            while not is_done:
                answer = self._ask("more", RUNNING)
                is_done = answer["is_done"]
                if answer["tokens"]:
                    until = monotonic() + RUNNING
                elif monotonic() > until:
                    self._process.end()
                    raise BackendError(
                        f"the vendor's runtime generated no token for {RUNNING:g} s", where=self._where
                    )
                yield from answer["tokens"]
        except GeneratorExit:
            if not is_done and self._process.is_alive:
                self._ask("stop", RUNNING)
            raise

    def reset(self) -> None:
        self._ask("reset", RUNNING)
