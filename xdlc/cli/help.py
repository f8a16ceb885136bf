"""Help of the tools: flags under headings, examples, and the address of the page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import click

from xdlc.version import DOCUMENTATION

WHOLE = "xdlc.help"
"""Key in a context's ``meta``: whether the help shows all flags."""
COMMON, OWN, LAST = "Common", "Options", "All tools"


@cache
def _table() -> Mapping[str, Any]:
    import tomllib

    return tomllib.loads((Path(__file__).parent / "help.toml").read_text(encoding="utf-8"))


def _entry(command: click.Command) -> Mapping[str, Any]:
    tools = _table()["tools"]
    entry = tools.get(str(command.name), {})
    return {**tools.get(entry.get("like"), {}), **entry}


def show_whole(ctx: click.Context, _param: click.Parameter, is_set: bool) -> None:
    """Print the help with all flags, and end the tool."""
    if is_set and not ctx.resilient_parsing:
        ctx.meta[WHOLE] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def write_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write flags under headings; without ``WHOLE`` the common flags alone."""
    common = _entry(command).get("common", "").split()
    titles = {flag: title for title, flags in _table()["headings"].items() for flag in flags.split()}
    rows: dict[str, list[tuple[str, str]]] = {title: [] for title in (COMMON, OWN, *_table()["headings"])}
    for param in sorted(
        command.get_params(ctx),
        key=lambda param: common.index(param.opts[-1]) if param.opts[-1] in common else len(common),
    ):
        record = param.get_help_record(ctx)
        if record is not None:
            flag = param.opts[-1]
            title = titles.get(flag, OWN) if common or titles.get(flag) == LAST else OWN
            rows[COMMON if flag in common else title].append(record)
    first = rows if ctx.meta.get(WHOLE) else (COMMON, OWN)
    shown = {title: rows[title] for title in first if rows[title]}
    for title, records in shown.items():
        with formatter.section(title):
            formatter.write_dl(records)
    rest = sum(map(len, rows.values())) - sum(map(len, shown.values()))
    if rest:
        formatter.write_paragraph()
        formatter.write_text(f"{rest} more flags: --help-all")


def write_end(command: click.Command, formatter: click.HelpFormatter) -> None:
    """Write examples and the address of the page."""
    entry = _entry(command)
    if entry:
        with formatter.section("Examples"):
            for example in entry["examples"]:
                formatter.write(f"  {example}\n")
        formatter.write(f"\nDocumentation: {DOCUMENTATION}/{entry['page']}.html\n")
