import errno
import os
from pathlib import Path
from typing import Any, NoReturn

import click
import pytest
from click.testing import CliRunner

from xdlc.cli import params
from xdlc.cli.tool import tool
from xdlc.cli.tools import info
from xdlc.errors import StorageError


def test_dims_by_name() -> None:
    @click.command()
    @click.option(
        "-d",
        "dims",
        type=(str, str),
        multiple=True,
        callback=lambda _context, _param, pairs: params.dims(pairs, least=-1),
    )
    def command(dims: dict[str, tuple[int, ...]]) -> None:
        click.echo(dims)

    assert (
        CliRunner().invoke(command, ["-d", "x", "1,3", "-d", "y:0", "7"]).output
        == "{'x': (1, 3), 'y:0': (7,)}\n"
    )
    for wrong in (
        ["-d", "x", "1,three"],
        ["-d", "x", "-2"],
        ["-d", "x", "1,"],
        ["-d", "x", "(1,3"],
        ["-d", "x", "1", "-d", "x", "2"],
        ["-d", "x", ""],
        ["-d", "x", "1,٣"],
    ):
        assert CliRunner().invoke(command, wrong).exit_code == 2


@pytest.mark.parametrize(
    "words",
    [
        ["x", "1,3,8,-1"],
        ["x", "1, 3, 8, -1"],
        ["x", "1x3x8x-1"],
        ["x", "[1, 3, 8, -1]"],
        ["x", "1 3 8 -1"],
        ["x:1,3,8,-1"],
        ["x 1,3,8,-1"],
    ],
)
@pytest.mark.parametrize("after", [[], ["-v", "1"]])
def test_spellings_of_a_shape(words: list[str], after: list[str]) -> None:
    shapes = {}

    @tool("x")
    @params.INPUT_DIMS
    @click.option("-v", "number", type=int)
    def command(input_dims: dict[str, tuple[int, ...]], number: int | None) -> None:
        shapes.update(input_dims)
        assert number == (1 if after else None)

    assert CliRunner().invoke(command, ["-d", *words, *after]).exit_code == 0
    assert shapes == {"x": (1, 3, 8, -1)}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--input_dim=x 1,3 --input_dim y 7", {"x": (1, 3), "y": (7,)}),
        ("-d x:0 1,3 -d y:1 7 -d z:5", {"x:0": (1, 3), "y:1": (7,), "z": (5,)}),
    ],
)
def test_a_name_may_be_glued_to_its_flag_and_hold_a_colon(words: str, expected: dict[str, Any]) -> None:
    shapes = {}

    @tool("x")
    @params.INPUT_DIMS
    def command(input_dims: dict[str, tuple[int, ...]]) -> None:
        shapes.update(input_dims)

    assert CliRunner().invoke(command, words.split()).exit_code == 0
    assert shapes == expected


def test_distinct_names() -> None:
    @click.command()
    @click.option("-n", "found", multiple=True, callback=params.distinct_names)
    def command(found: tuple[str, ...]) -> None:
        click.echo(found)

    assert CliRunner().invoke(command, ["-n", "a,b", "-n", "c"]).output == "('a', 'b', 'c')\n"
    for wrong in (["-n", "a,a"], ["-n", "a", "-n", "a"], ["-n", ""], ["-n", "a,"]):
        assert CliRunner().invoke(command, wrong).exit_code == 2


def test_a_file_that_cannot_be_read_is_no_error_of_the_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*_args: object, **_names: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    path = tmp_path / "m.dlc"
    path.write_bytes(b"PK")
    monkeypatch.setattr(os, "access", lambda *_args, **_names: False)
    monkeypatch.setattr(os, "open", refused)
    assert CliRunner().invoke(info.main, [str(path)]).exit_code == StorageError.exit_code


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("sm8550,sm8650", ("sm8550", "sm8650")),
        ("sm8550 sm8650", ("sm8550", "sm8650")),
        ("8 Gen 3, sm8550", ("8 Gen 3", "sm8550")),
        ("", ()),
    ],
)
def test_names_of_socs_may_have_blanks(text: str, names: tuple[str, ...]) -> None:
    assert params.soc_names(text) == names
