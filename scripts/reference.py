"""Pages that come from the code: the command line, the Python interface, the errors.

    python -m scripts.reference --write     # renew the pages of docs/reference

The site has all pages. docs/reference has those without a page for each tool, as GitHub shows them.
"""

from __future__ import annotations

import argparse
import ctypes
import inspect
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from xdlc.cli.help import WHOLE
from xdlc.runtime import interfaces

ROOT = Path(__file__).resolve().parents[1]
PROBLEMS = ROOT / "xdlc" / "problems.toml"


def pages() -> dict[str, str]:
    """Return the text of each page by its path in the site."""
    texts = {f"reference/cli/{name}.md": _tool_page(name, command) for name, command in tools().items()}
    texts["reference/cli.md"] = _tools_page()
    texts["reference/api.md"] = _api_page()
    texts["reference/op-package-interfaces.md"] = _interfaces_page()
    if PROBLEMS.exists():
        texts["reference/errors.md"] = errors_page(tomllib.loads(PROBLEMS.read_text()))
    return texts


def committed() -> dict[str, str]:
    """Return the text of each page of docs/ that comes from the code by its path in docs/."""
    texts = {}
    for name, text in pages().items():
        if not name.startswith("reference/cli/"):
            text = re.sub(r"\n```\{(?:toctree|eval-rst)\}.*?```\n", "", text, flags=re.DOTALL)
            text = re.sub(r"\[(`[^`]+`)\]\(cli/[\w-]+\.md\)", r"\1", text)
            text = re.sub(r"^\((xd\d+)\)=$", r'<a id="\1"></a>', text, flags=re.MULTILINE)
            notice = "<!-- Written by `python -m scripts.reference --write`. -->"
            texts[name] = f"{text.rstrip()}\n\n{notice}\n"
    return texts


def toctree(caption: str, names: Sequence[str]) -> str:
    """Return a hidden table of contents."""
    rows = "\n".join(f"/{name.removesuffix('.md')}" for name in names)
    title = f":caption: {caption}\n" if caption else ""
    return f"\n```{{toctree}}\n:hidden:\n{title}\n{rows}\n```\n"


# ------------------------------------------------------------------ the command line


def tools() -> dict[str, click.Command]:
    """Return the tools by the names of their commands."""
    from xdlc.cli.main import main

    assert isinstance(main, click.Group)
    context = click.Context(main, info_name="xdlc")
    commands: dict[str, click.Command] = {}
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        if command is not None and command not in commands.values():
            commands[name] = command
    return commands


def manual() -> list[tuple[str, str, str]]:
    """Return page, name and summary of each man page."""
    return [(f"reference/cli/{name}", f"xdlc-{name}", _summary(command)) for name, command in tools().items()]


def _summary(command: click.Command) -> str:
    return command.get_short_help_str(200)


def _names() -> dict[str, list[str]]:
    """Return the names that the module of each tool is installed under."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    names: dict[str, list[str]] = {}
    for name, target in scripts.items():
        names.setdefault(target.partition(":")[0], []).append(name)
    return names


def _tools_page() -> str:
    rows = [f"| [`xdlc {name}`](cli/{name}.md) | {_summary(command)} |" for name, command in tools().items()]
    return "\n".join(
        [
            "# Command line",
            "",
            "Each tool is a command of `xdlc`. `xdlc TOOL --help-all` prints all flags of a tool.",
            "`make man` writes the same texts as man pages to `.site/man`.",
            "",
            "| command | task |",
            "|---|---|",
            *rows,
            toctree("", [f"reference/cli/{name}" for name in tools()]),
        ]
    )


def _tool_page(name: str, command: click.Command) -> str:
    scripts = _names().get(getattr(command.callback, "__module__", ""), [])
    names = [f"Also installed as {', '.join(f'`{script}`' for script in scripts)}.", ""] if scripts else []
    return "\n".join([f"# xdlc {name}", "", *names, *_help(command, f"xdlc {name}", 2)])


def _help(command: click.Command, path: str, level: int) -> Iterator[str]:
    """Iterate over the lines of a command's help, and of the commands below it."""
    context = click.Context(command, info_name=path)
    context.meta[WHOLE] = True
    formatter = _Markdown(level)
    command.format_help(context, formatter)
    yield re.sub(r"(?:^  xdlc.*\n)+", _as_console, formatter.getvalue(), flags=re.MULTILINE)
    if hidden := _other_names(command):
        yield from (f"{'#' * level} Other names of flags", "", "| name | flag |", "|---|---|", *hidden, "")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from (f"{'#' * level} {path} {name}", "")
            yield from _help(below, f"{path} {name}", level + 1)


def _as_console(examples: re.Match[str]) -> str:
    commands = (f"$ {line.strip()}" for line in examples[0].splitlines())
    return "\n".join(["```console", *commands, "```", ""])


def _other_names(command: click.Command) -> list[str]:
    aliases: Mapping[str, click.Option] = getattr(command, "aliases", {})
    return [f"| `{name}` | `{option.opts[-1]}` |" for name, option in sorted(aliases.items())]


class _Markdown(click.HelpFormatter):
    """Writes a help text as Markdown: usage and examples as code, options as definitions."""

    def __init__(self, level: int) -> None:
        super().__init__(width=100)
        self.level = level

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        self.write(f"```console\n$ {prog} {args}\n```\n\n")

    def write_heading(self, heading: str) -> None:
        self.write(f"{'#' * self.level} {heading.rstrip(':')}\n\n")

    def write_paragraph(self) -> None:
        self.write("\n")

    def write_text(self, text: str) -> None:
        for paragraph in inspect.cleandoc(text).split("\n\n"):
            if paragraph.startswith("\b"):
                rows = inspect.cleandoc(paragraph.lstrip("\b\n"))
                self.write(f"```text\n{rows}\n```\n\n")
            else:
                self.write(f"{_escaped(paragraph)}\n\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        for term, text in rows:
            if text:  # an argument that the usage names may have none
                self.write(f"`{term}`\n: {_escaped(' '.join(text.split()))}\n\n")


def _escaped(text: str) -> str:
    """Return a text as Markdown: flags and parts in backticks are code, all signs are left alone."""
    parts = re.split(r"(`[^`]+`|(?<![\w-])--?[a-zA-Z][\w-]*)", text)
    signs = re.compile(r"([\\`*_<>\[\]{}|#$])")
    return "".join(
        f"`{part.strip('`')}`" if odd % 2 else signs.sub(r"\\\1", part) for odd, part in enumerate(parts)
    )


# ------------------------------------------------------------------ the Python interface


def _api_page() -> str:
    import xdlc
    import xdlc.errors

    def first_line(name: str) -> str:
        docstring = inspect.getdoc(getattr(xdlc, name, None) or getattr(xdlc.errors, name)) or ""
        return docstring.partition("\n")[0].replace("``", "`")

    values = {name: getattr(xdlc, name) for name in sorted(xdlc.__all__, key=str.lower)}
    verbs = [name for name, value in values.items() if inspect.isfunction(value)]
    classes = [name for name, value in values.items() if inspect.isclass(value) and value.__name__ == name]
    errors = [
        name
        for name, value in inspect.getmembers(xdlc.errors, inspect.isclass)
        if issubclass(value, xdlc.XdlcError) and value is not xdlc.XdlcError
    ]
    lines = ["# Python functions and classes", ""]
    lines += ["[The Python interface](python-api.md) shows how they fit together.", ""]
    lines += ["`help(xdlc.convert)` prints the whole text of a function.", ""]
    for title, directive, rows in (
        ("Functions", ".. autofunction:: {}", {name: f"xdlc.{name}" for name in verbs}),
        ("Classes", ".. autoclass:: {}\n   :members:", {name: f"xdlc.{name}" for name in classes}),
        ("Errors", ".. autoexception:: {}", {name: f"xdlc.errors.{name}" for name in errors}),
    ):
        directives = [directive.format(path) for path in rows.values()]
        lines += [f"## {title}", "", "| name | summary |", "|---|---|"]
        lines += [f"| `{path}` | {first_line(name)} |" for name, path in rows.items()]
        lines += ["", "```{eval-rst}", "\n\n".join(directives), "```", ""]
    return "\n".join(lines)


# ------------------------------------------------------------------ the vendor's interfaces


def _interfaces_page() -> str:
    """Return each struct with its offsets on 64-bit systems, and each enum."""
    rows = [
        "# Interfaces of op packages",
        "",
        "Generated packages and xdlc's runtime use these facts; the stand-in headers come from them. "
        "The proof of a fact is its reference page, public code that uses the fact (use), a library of "
        "the vendor (library), or open.",
        "",
    ]
    for header in interfaces.headers():
        rows += [f"## {header.file}", "", f"Source: {header.page}.", ""]
        for item in header.types:
            rows += [f"**{item.name}**, {item.kind}; proof: {item.proof}.", "", *_interface_rows(item)]
    return "\n".join(rows)


def _interface_rows(item: interfaces.CType) -> Iterator[str]:
    if item.kind == "struct":
        kind = interfaces.ctype(item.name)
        yield from ("| offset | member |", "|---|---|")
        for member in item.members:
            offset = getattr(kind, interfaces.field(member)[0]).offset
            yield f"| {offset} | `{member if ' ' in member else f'union {member}'}` |"
        yield from (f"| {ctypes.sizeof(kind)} | end |", "")
    elif item.kind in ("callback", "function"):
        yield from (f"`{item.returns} ({', '.join(item.members)})`", "")
    elif item.kind == "alias":
        yield from (f"`{item.returns}`", "")
    elif item.members:
        yield from (*(f"- `{member}`" for member in item.members), "")


# ------------------------------------------------------------------ the errors


def errors_page(table: Mapping[str, Any]) -> str:
    """Return the page of error codes and exit codes.

    Args:
        table: The content of xdlc/problems.toml.
    """
    lines = [
        "# Errors and exit codes",
        "",
        "`xdlc explain XD104` prints an entry of this page.",
        "[When it goes wrong](../troubleshooting.md) starts from what you see instead.",
        "",
        "## Exit codes",
        "",
        "| exit code | meaning |",
        "|---|---|",
        *(f"| {code} | {meaning} |" for code, meaning in table.get("exit_codes", {}).items()),
        "",
    ]
    for code, entry in sorted(table["problems"].items()):
        lines += [f"({code.lower()})=", "", f"## {code}: {entry['title']}", "", entry["why"], ""]
        if example := entry.get("example"):
            lines += ["This may fail:", "", "```console", f"$ {example}", "```", ""]
        lines += [f"**Fix.** {entry['fix']}", ""]
        if page := entry.get("page"):
            lines += [f"More: [{_title(page)}](../{page})", ""]
    return "\n".join(lines)


def _title(page: str) -> str:
    path = ROOT / "docs" / page.partition("#")[0]
    first = path.read_text().split("\n", 1)[0] if path.exists() else page
    return first.removeprefix("# ")


def main() -> int:
    """Renew the pages of docs/reference."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", required=True, help="write the pages")
    parser.parse_args()
    for name, text in committed().items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
