from __future__ import annotations

import click
from click.testing import CliRunner

from xdlc.cli import params


def test_dims_by_name() -> None:
    @click.command()
    @click.option("-d", "dims", type=(str, str), multiple=True, callback=params.dims_by_name)
    def command(dims: dict[str, tuple[int, ...]]) -> None:
        click.echo(dims)

    assert (
        CliRunner().invoke(command, ["-d", "x", "1,3", "-d", "y:0", "7"]).output
        == "{'x': (1, 3), 'y:0': (7,)}\n"
    )
    for wrong in (
        ["-d", "x", "1,three"],
        ["-d", "x", "-1"],
        ["-d", "x", "1", "-d", "x", "2"],
        ["-d", "x", ""],
        ["-d", "x", "1,٣"],
    ):
        assert CliRunner().invoke(command, wrong).exit_code == 2


def test_distinct_names() -> None:
    @click.command()
    @click.option("-n", "found", multiple=True, callback=params.distinct_names)
    def command(found: tuple[str, ...]) -> None:
        click.echo(found)

    assert CliRunner().invoke(command, ["-n", "a,b", "-n", "c"]).output == "('a', 'b', 'c')\n"
    for wrong in (["-n", "a,a"], ["-n", "a", "-n", "a"], ["-n", ""], ["-n", "a,"]):
        assert CliRunner().invoke(command, wrong).exit_code == 2
