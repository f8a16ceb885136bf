"""The page on the Python interface has a row for each function."""

import re
from pathlib import Path

import xdlc

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python-api.md"
OTHERS = {"Model", "RunOptions", "XdlcError", "__version__", "session"}


def test_the_table_has_each_function():
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text(), re.M)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted({*xdlc.__all__} - OTHERS)
