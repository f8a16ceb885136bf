"""``xdlc-compat``: launchers under names of the vendor's tools, and flags."""

from __future__ import annotations

import shlex
import sys
from importlib import import_module
from pathlib import Path

import click

from xdlc.cli import params, text, vendor_flags
from xdlc.cli.output_path import storage_errors
from xdlc.cli.tool import group, output, show, tool
from xdlc.cli.usage_errors import flag_of
from xdlc.errors import UsageError, XdlcError, nearest_names, raise_all

_MARK = "# launcher of xdlc compat"


@tool("install")
@click.argument("folder", metavar="DIR", type=params.OUTPUT_FILE)
@click.option(
    "--tools",
    callback=params.names,
    metavar="NAME,NAME..",
    help="Write launchers of these tools of the vendor only.  [default: all]",
)
@click.option("--force", is_flag=True, help="Replace launchers of another Python or xdlc.")
def install(folder: Path, tools: tuple[str, ...], force: bool) -> None:
    """Write launchers with the names of the vendor's tools into a folder.

    Each launcher is a script of three lines, for sh and for `python NAME`. It calls the tool of xdlc with the
    vendor's flags. xdlc never replaces a file that is not a launcher.
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
                fix = "choose another folder, or omit the tool: --tools"
                problems.append(UsageError("is not a launcher, and stays", where=str(path), fix=fix))
            elif existing != launcher.encode() and not force:
                fix = "add --force"
                problems.append(UsageError("is a launcher of another Python", where=str(path), fix=fix))
    raise_all(problems)
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for path, launcher in files.items():
        replace_text(path, launcher, executable=True)
    show(f"written: {len(files)} launchers in {folder}")
    show(f"before the vendor's on the path: export PATH={shlex.quote(str(folder.absolute()))}:$PATH")


@tool("flags")
@click.argument("name", metavar="TOOL")
def flags(name: str) -> None:
    """List the name of each flag of a vendor's tool in xdlc, or why it has none."""
    tools = vendor_flags.vendor_tools()
    if name not in tools:
        raise _unknown(name)
    if lacking := vendor_flags.missing(name):
        output(str(lacking))
        return
    section = vendor_flags.sections()[name]
    output(f"{name}: {section['tool']}")
    if "note" in section:
        output(f"  {section['note']}")
    module = section["tool"].removeprefix("xdlc-").removeprefix("xconv-").replace("-", "_")
    command = import_module(f"xdlc.cli.tools.{module}").main
    rows = [
        (entry.flag, entry.kind, entry.meaning or flag_of(command, entry.flag.lstrip("-")) or "")
        for entry in vendor_flags.entries(name).values()
    ]
    for line in text.table(("flag", "", "meaning"), sorted(rows), (36, 8)):
        output(line)


def _launcher(name: str) -> str:
    """Return a script that is valid for both sh and Python."""
    words = [sys.executable, "-P", "-m", "xdlc", name]
    quoted = " ".join("'" + word.replace("'", "'\"'\"'") + "'" for word in words)
    call = f"import os, sys; os.execv({words[0]!r}, {words!r} + sys.argv[1:])"
    return f"#!/bin/sh\n'exec' {quoted} \"$@\"\n{call}  {_MARK}\n"


def _unknown(name: str) -> UsageError:
    known = vendor_flags.vendor_tools()
    return UsageError(f"no tool {name!r}", fix=nearest_names(name, known) or f"tools: {', '.join(known)}")


@group("xdlc-compat", install, flags)
def main() -> None:
    """Use scripts for the vendor's tools: install launchers, list their flags."""
