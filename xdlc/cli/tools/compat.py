"""``xdlc-compat``: launchers under names of the vendor's tools, and flags."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

import click

from xdlc.cli import params, text, vendor_flags
from xdlc.cli.output_path import storage_errors
from xdlc.cli.tool import group, output, show, tool
from xdlc.cli.usage_errors import flag_of, nearest_option
from xdlc.errors import UsageError, XdlcError, nearest_names, raise_all

_MARK = "# launcher of xdlc compat"
_SHOWN = {vendor_flags.VOID: "ignored", vendor_flags.LATER: "becomes"}
"""Kinds of flags by words that users know."""


@tool("install")
@click.argument("folder", metavar="DIR", type=params.OUTPUT_FILE)
@click.option(
    "--tools",
    callback=params.names,
    metavar="NAME,NAME..",
    help="Write launchers only for these tools of the vendor.  [default: all]",
)
@click.option("--force", is_flag=True, help="Replace launchers of another Python or xdlc.")
def install(folder: Path, tools: tuple[str, ...], force: bool) -> None:
    """Write launchers with the names of the vendor's tools into a folder.

    Each launcher is a script of three lines, for sh and for `python NAME`. A launcher calls xdlc's tool with
    the vendor's flags. xdlc never replaces a file that is not a launcher.
    """
    from xdlc.ir.files import replace_text

    vendor_tools = vendor_flags.vendor_tools()
    problems: list[XdlcError] = [_unknown(name) for name in tools if name not in vendor_tools]
    files: dict[Path, str] = {}
    for name in dict.fromkeys(tools) or vendor_tools:
        path = folder / name
        launcher = _launcher(name)
        files[path] = launcher
        if path.is_symlink() or path.exists():
            with storage_errors(path, "read"):
                existing = path.read_bytes()[: 1 << 14] if path.is_file() and not path.is_symlink() else b""
            if not existing.endswith(f"{_MARK}\n".encode()):
                fix = "choose another folder, or omit this tool from --tools"
                problems.append(UsageError("the file exists and is not a launcher", where=str(path), fix=fix))
            elif existing != launcher.encode() and not force:
                fix = "add --force to replace the launcher"
                problems.append(UsageError("is a launcher for another Python", where=str(path), fix=fix))
    raise_all(problems)
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for path, launcher in files.items():
        replace_text(path, launcher, executable=True)
    show(f"written: {len(files)} launchers in {folder}")
    show(f"to use them before the vendor's tools: export PATH={shlex.quote(str(folder.absolute()))}:$PATH")


@tool("flags")
@click.argument("words", metavar="TOOL|FLAG..", nargs=-1, required=True, type=click.UNPROCESSED)
def flags(words: tuple[str, ...]) -> None:
    """List xdlc's name for each flag of a vendor's tool, or why xdlc lacks the flag.

    If you name a flag, xdlc prints only the line of this flag. Without a tool, xdlc searches all tools.
    """
    flag = next((word for word in words if word.startswith("-")), None)
    names = [word for word in words if word != flag]
    tools = vendor_flags.vendor_tools()
    for name in names:
        if name not in tools:
            raise _unknown(name)
        if lacking := vendor_flags.missing(name):
            output(str(lacking))
            return
    if flag is not None:
        _show_flag(flag, names or [name for name, counterpart in tools.items() if counterpart])
        return
    for name in names:
        section = vendor_flags.sections()[name]
        output(f"{name}: {section['tool']}")
        if "note" in section:
            output(f"  {section['note']}")
        for line in text.table(("flag", "", "meaning"), sorted(_rows(name)), (36, 8)):
            output(line)


def _rows(name: str) -> Iterator[tuple[str, str, str]]:
    """Yield each flag of a vendor's tool, what becomes of it, and its meaning."""
    module = str(vendor_flags.vendor_tools()[name]).removeprefix("xdlc-").removeprefix("xconv-")
    command = import_module(f"xdlc.cli.tools.{module.replace('-', '_')}").main
    for entry in vendor_flags.entries(name).values():
        meaning = entry.meaning or flag_of(command, entry.flag.lstrip("-")) or ""
        yield entry.flag, _SHOWN.get(entry.kind, entry.kind), meaning


def _show_flag(flag: str, names: Sequence[str]) -> None:
    """Print the meaning of a flag, once for all tools that share it."""
    tools_of: dict[tuple[str, str, str], list[str]] = {}
    rows = [(row, name) for name in names for row in _rows(name)]
    for row, name in rows:
        if params.dashed(row[0]) == params.dashed(flag):
            tools_of.setdefault(row, []).append(name)
    for name in () if tools_of or len(names) == 1 else vendor_flags.lacking(flag):
        meaning = "no counterpart in xdlc: {}; {}".format(*vendor_flags.sections()[name]["missing"])
        tools_of.setdefault((flag, vendor_flags.REFUSED, meaning), []).append(name)
    if not tools_of:
        where = names[0] if len(names) == 1 else "the vendor's tools"
        nearest = nearest_option(flag, [params.dashed(row[0]) for row, _ in rows])
        fix = nearest or "xdlc compat flags TOOL lists all flags"
        raise UsageError(f"no flag {flag!r} of {where}", fix=fix, code="XD201")
    for row, tools in tools_of.items():
        output(f"{'  '.join(row)}  ({', '.join(tools)})")


def _launcher(name: str) -> str:
    """Return a script that is valid for both sh and Python."""
    words = [sys.executable, "-P", "-m", "xdlc", name]
    quoted = " ".join("'" + word.replace("'", "'\"'\"'") + "'" for word in words)
    call = f"import os, sys; os.execv({words[0]!r}, {words!r} + sys.argv[1:])"
    return f"#!/bin/sh\n'exec' {quoted} \"$@\"\n{call}  {_MARK}\n"


def _unknown(name: str) -> UsageError:
    known = vendor_flags.vendor_tools()
    fix = nearest_names(name, known) or f"use one of {', '.join(known)}"
    return UsageError(f"no tool {name!r}", fix=fix)


@group("xdlc-compat", install, flags)
def main() -> None:
    """Support scripts that call the vendor's tools: install launchers, and list flags."""
