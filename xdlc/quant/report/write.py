"""Writes a report in the form that its file name asks for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

from xdlc.container.storage import replace_file
from xdlc.errors import StorageError, UsageError
from xdlc.quant.report.csv_form import as_csv
from xdlc.quant.report.html_form import as_html
from xdlc.quant.report.json_form import as_json
from xdlc.quant.report.model import QuantReport

FORMS: dict[str, Callable[[QuantReport], str]] = {".html": as_html, ".json": as_json, ".csv": as_csv}
"""Text of a report by suffix."""


def check_path(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a report's path, after a look at whether the path can be one.

    Raises:
        UsageError: If no form has the suffix.
        StorageError: If there is no such folder.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMS:
        raise UsageError(
            f"no report has the suffix {suffix!r}",
            where=os.fspath(path),
            fix=f"name a file that ends in {', '.join(FORMS)}",
        )
    if not Path(path).parent.is_dir():
        raise StorageError(
            "cannot be written: there is no such folder", where=os.fspath(path), fix="make the folder first"
        )
    return suffix


def write(report: QuantReport, path: str | os.PathLike[str]) -> None:
    """Write a report as HTML, JSON or CSV, by the suffix; an old file is replaced as a whole or not at all.

    Raises:
        UsageError: If the suffix is another, or the path is no file.
        StorageError: If the file cannot be written.
    """
    content = FORMS[check_path(path)](report).encode("utf-8", "backslashreplace")

    def put(file: IO[bytes]) -> None:
        file.write(content)

    replace_file(path, put)
