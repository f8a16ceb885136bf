"""``xdlc-udo-package-generator``: source packages of user-defined operations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xdlc.cli import params
from xdlc.cli.tool import show, tool, written

if TYPE_CHECKING:
    from xdlc.udo.generator import Generated


@tool("xdlc-udo-package-generator")
@params.source(
    "CONFIG",
    "Read this OpDef XML or JSON configuration. xdlc merges packages with the same name. Repeatable.",
    "-p",
    "--config-path",
    name="configs",
    multiple=True,
)
@params.output(
    "Write each package to a subfolder with the package's name.",
    "--output-path",
    name="folder",
    metavar="FOLDER",
    required=True,
)
@click.option(
    "-f",
    "--force-generation",
    "force",
    is_flag=True,
    help="Update packages that exist. xdlc keeps kernels that you changed, and writes their new versions "
    "next to them as .new files.",
)
@click.option(
    "--per-backend",
    is_flag=True,
    help="Generate a package for each backend, with QNN's names: MyPackageCpu, MyPackageHtp.",
)
def main(configs: tuple[Path, ...], folder: Path, force: bool, per_backend: bool) -> None:
    """Generate a package of user-defined operations: sources, makefiles and tests.

    You can build the CPU part with make and any C++17 compiler, without an SDK.
    """
    from xdlc.udo.generator import generate_files

    for made in generate_files(configs, folder, force=force, per_backend=per_backend):
        _report(made)


def _report(generated: Generated) -> None:
    outcome, package = generated.outcome, generated.package
    for core in package.cores:
        show(f"{core.name:8}{', '.join(op.type for op in core.ops)}")
    for backend in generated.ignored:
        show(f"notice: xdlc generates no library for backend {backend}")
    for text in generated.notices:
        show(f"notice: {text}")
    for path in outcome.kept:
        new = f"; the new file is {path}.new" if path in outcome.beside else ""
        show(f"kept: you changed {path}{new}")
    for path in outcome.replaced:
        show(f"replaced: you changed {path}; the old file is {path}.old")
    for path in outcome.left:
        show(f"left: you changed {path}, which the package no longer needs; the file is now {path}.old")
    written(outcome.folder)
