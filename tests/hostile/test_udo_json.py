"""Strangers' JSON configurations: a value, or errors with a line, soon."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.udo.config.test_bad_configs import GOOD
from tests.udo.config.test_json_writer import EVERYTHING
from xdlc import opdefs
from xdlc.errors import XdlcError, each_problem
from xdlc.udo.config import read, write_json

PIECES = [
    *(
        '"',
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "null",
        "true",
        "1e400",
        "-0",
        "NaN",
        "'",
        "\\",
        "\\u0000",
        "//",
        "\x00",
    ),
    *(
        '""',
        "[]",
        "{}",
        '"CPU"',
        '"STRING"',
        '"xdlc_rank": "9D",',
        '"default": [[[[]]]],',
        '"static": true,',
        "9" * 70,
    ),
]


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


@pytest.mark.parametrize("extended", [False, True])
def test_mutations(tmp_path: Path, extended: bool) -> None:
    text = GOOD
    if extended:
        text = write_json([opdefs.parse_collection(EVERYTHING.encode(), "e.xml")], extended=True)
    rng = random.Random(11 + extended)
    outcomes = set()
    for _ in range(400):
        data = text
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            data = data[:at] + rng.choice(PIECES) + data[at + rng.randint(0, 12) :]
        outcomes.add(outcome(tmp_path / "c.json", data.encode("utf-8", "surrogatepass")))
    assert "refused" in outcomes


def test_members_of_every_other_kind(tmp_path: Path) -> None:
    """Put each kind of value in the place of each other value."""
    import json

    def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
        found = [path] if path else []
        items = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        return found + [place for key, item in items for place in places(item, (*path, key))]

    for place in places(json.loads(GOOD)):
        for value in (None, True, -1, 2.5, "", "x y", [], [[]], {}, {"": 1}, [None], "\ud7ff" * 50):
            root = json.loads(GOOD)
            holder = root
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = value
            assert outcome(tmp_path / "c.json", json.dumps(root).encode()) in ("read", "refused")


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
