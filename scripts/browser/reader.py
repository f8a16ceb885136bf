"""Answers of the page that opens DLCs; this module runs in the browser."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

from xdlc.api.models import load
from xdlc.api.viewing import view_content
from xdlc.container.caches import is_context_binary
from xdlc.errors import UsageError, XdlcError, each_problem
from xdlc.lazy import is_installed
from xdlc.view.content import packed_json

LONGEST = 200
"""Characters of a file's name that a path has."""
MISSING = "" if is_installed("numpy") else "This page has no numpy, so it shows no statistics of weights."
READY = f"Choose a DLC, or two. {MISSING}".strip()


class Reader:
    """Files that were dropped together.

    Args:
        tell: Shows a step on the page.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._folder = Path(tempfile.mkdtemp())
        self._paths: list[Path] = []

    def add(self, name: str, content: Any) -> None:
        """Store a file.

        Args:
            name: Its name.
            content: Its bytes, as an array of JavaScript.
        """
        folder = self._folder / str(len(self._paths))
        folder.mkdir()
        path = folder / (name.replace("/", "_")[-LONGEST:] or "file")
        with path.open("wb") as file:
            content.to_file(file)
        self._paths.append(path)

    def answer(self) -> dict[str, Any]:
        """Return the content of the page, or the problems of the files in words."""
        try:
            content = self._content()
        except XdlcError as error:
            problems = [_lines(problem, self._folder) for problem in each_problem(error)]
            return {"problems": list(chain.from_iterable(problems))}
        return {"note": MISSING, "content": packed_json(content).decode("ascii")}

    def _content(self) -> dict[str, Any]:
        reports = [path for path in self._paths if path.suffix == ".json"]
        models = [path for path in self._paths if path not in reports]
        if not 0 < len(models) < 3:
            raise UsageError(f"you chose {len(models)} DLCs", fix="choose one DLC, or two to compare them")
        for path in models:
            if is_context_binary(path):
                raise UsageError("a browser opens no context binaries", where=str(path), fix="choose a DLC")
            load(path)  # refuses source models, which a browser does not convert
        return view_content(
            models[0],
            against=models[1] if len(models) > 1 else None,
            reports=reports,
            step=lambda title, done, total: self._tell(f"{title[:1].upper()}{title[1:]}."),
        )

    def close(self) -> None:
        """Remove the files."""
        shutil.rmtree(self._folder)


def _lines(error: XdlcError, folder: Path) -> list[str]:
    """Return a problem, its place and its fix, without the folder of the page."""
    texts = [f"{error.where}: {error.problem}" if error.where else error.problem]
    texts += [f"fix: {error.fix}"] if error.fix else []
    texts += [f"code: {error.code}"] if error.code else []
    return [_without(text, folder) for text in texts]


def _without(text: str, folder: Path) -> str:
    for number in range(len(list(folder.iterdir()))):
        text = text.replace(f"{folder}/{number}/", "")
    return text
