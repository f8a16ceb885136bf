"""``xdlc-udo-config``: conversion, validation and drafts of UDO configurations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xdlc.cli import bars, params
from xdlc.cli.output_path import check_target
from xdlc.cli.tool import group, notice, output, show, tool, written
from xdlc.options.graphs import DraftOptions, FormOptions

if TYPE_CHECKING:
    from xdlc.udo.config import Converted

_CONFIGS = params.source("FILE", "Read this configuration. Repeatable.", name="configs", multiple=True)
_TARGET = params.output(
    "Write this file, .xml or .json. A folder gets a file for each package; - is standard output.",
    "--output-path",
    required=True,
)


@tool("convert")
@_CONFIGS
@_TARGET
@params.flags_of(FormOptions)
@click.option("--package", metavar="NAME", help="Convert only this package.")
@click.option(
    "--extended",
    is_flag=True,
    help="Keep facts without a field in the vendor's JSON in fields of xdlc's own, xdlc_...; "
    "without this flag xdlc drops them with a notice.",
)
def convert(
    configs: tuple[Path, ...], target: Path, form: str | None, package: str | None, extended: bool
) -> None:
    """Write configurations in the other form: JSON as OpDef XML, OpDef XML as JSON.

    xdlc recognizes the form of a file by its content, and merges packages of one name. It writes nothing if
    there is a problem.
    """
    from xdlc.udo.config import convert as convert_configs

    target = _checked(target)
    _write(convert_configs(configs, target, form=form or "", package=package or "", extended=extended))


@tool("validate")
@_CONFIGS
def validate(configs: tuple[Path, ...]) -> None:
    """Check configurations, singly and together; list each problem with its line.

    The summary states for each constraint whether xdlc enforces it.
    """
    from xdlc.errors import raise_all
    from xdlc.udo.config import inspect

    inspection = inspect(configs)
    for text in inspection.notices:
        notice(text)
    for line in inspection.summary:
        output(line)
    raise_all(inspection.problems)


@tool("from-model")
@params.source("MODEL", "Draft definitions for this model.", name="model", type=params.MODEL)
@_TARGET
@params.flags_of(DraftOptions)
@params.INPUT_DIMS
def from_model(model: Path, target: Path, **options: Any) -> None:
    """Draft definitions for the operators of a model that have no mapping.

    Inputs, outputs and parameters come from the model's nodes; descriptions state where each comes from. JSON
    gets fields of xdlc's own, xdlc_..., for facts that the vendor's form lacks.

    If no definition can describe an operator, xdlc reports it, writes the remaining operators, and exits
    with 4. It writes nothing if it could draft no operator.
    """
    from xdlc import api
    from xdlc.errors import raise_all

    target = _checked(target)
    with bars.steps("reading"):
        made = api.draft_udo_config(model, target, **options)
    _write(made)
    raise_all(made.problems, where=str(model))


@tool("schema")
@params.output("Write this file.  [default: standard output]", "--output-path", default="-")
def schema(target: Path) -> None:
    """Write the XML Schema of OpDef XML, for editors.

    xs:noNamespaceSchemaLocation="OpDef.xsd" in a configuration refers to this file.
    """
    from xdlc.udo.config import schema as schema_file

    _write(schema_file(target if str(target) == "-" else check_target(target)))


@tool("sdk")
@params.source("FILE", "Check this library. Repeatable.", name="libraries", multiple=True)
@click.option(
    "--release", default="", metavar="RELEASE", help="Require this release of all files: 2.51, v2.51.0."
)
def sdk(libraries: tuple[Path, ...], release: str) -> None:
    """Check that op packages and the HTP backend are of one SDK release.

    Prints the release of each file. xdlc loads no file.
    """
    from xdlc.udo.sdk_release import check_releases

    for path, found in zip(libraries, check_releases(libraries, release), strict=True):
        output(f"{path}: {found or 'the library states no SDK release'}")


@tool("check-plugin")
@click.argument("plugin", metavar="FILE.py:CLASS")
@click.option(
    "--nodes", type=click.IntRange(1, 1000), default=4, show_default=True, help="Convert this many nodes."
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Start the random values from this seed."
)
@params.INPUT_DIMS
@click.option(
    "--attribute",
    "attributes",
    nargs=2,
    multiple=True,
    metavar="NAME JSON",
    help="Set the value of an attribute: 3, 1,1,1,1 or a text. Repeatable.",
)
def check_plugin(
    plugin: str, nodes: int, seed: int, input_dims: Any, attributes: tuple[tuple[str, str], ...]
) -> None:
    """Convert random nodes with a plugin, run each kernel, compare the results.

    Attributes and inputs get random values of the declared kinds; --attribute and --input-dim fix them. The
    exit code is 7 if there is a problem.
    """
    from xdlc import api

    report = api.check_plugin(plugin, nodes, seed=seed, shapes=input_dims, attributes=dict(attributes))
    for line in report.lines():
        show(line)


def _checked(target: Path) -> Path:
    return target if str(target) == "-" or target.is_dir() else check_target(target)


def _write(made: Converted) -> None:
    paths = made.write()
    for text in made.notices:
        notice(text)
    if "-" in made.texts:
        output(made.texts["-"], end="")
    for path in paths:
        written(path)


@group("xdlc-udo-config", convert, validate, from_model, schema, sdk, check_plugin)
def main() -> None:
    """Convert, check and draft configurations of UDOs: JSON and OpDef XML."""
