"""Strangers' large JSON configurations: errors with a line, soon."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from xdlc.errors import XdlcError, each_problem
from xdlc.udo.config import read


def outcome(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    try:
        read(path)
    except XdlcError as error:
        for problem in each_problem(error):
            assert str(problem.where).startswith(str(path))
            assert problem.problem
        return "refused"
    return "read"


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 1_000_000,
        b'{"a":' * 100_000,
        b'"' + b"\\u0041" * 500_000,
        b"[" + b"1," * 1_500_000,
        b"1" * 3_000_000,
        b"{" + b",".join(b'"%d": 1' % i for i in range(30_000)) + b"}",
        b'{"P": {"UDO_PACKAGE_NAME": "P", "Operators": [' + b"{}," * 30_000 + b"{}]}}",
        b"\xff" * 1_000_000,
        b"/*" * 1_000_000,
        b" " * 4_000_000,
        b"'" * 1_000_000,
        b'"a" ' * 500_000,
    ],
    ids=[
        "deep",
        "objects",
        "escapes",
        "numbers",
        "digits",
        "members",
        "operators",
        "ff",
        "open",
        "blank",
        "single",
        "row",
    ],
)
def test_large_ones_are_refused_soon(data: bytes, tmp_path: Path) -> None:
    began = time.process_time()
    assert outcome(tmp_path / "c.json", data) == "refused"
    assert time.process_time() - began < 20
