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
    "Write to this .xml or .json file. In a folder, xdlc writes a file for each package; - is standard "
    "output.",
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
    help="Store facts that the vendor's JSON cannot hold in extra fields named xdlc_NAME. Without this flag, "
    "xdlc drops these facts and prints a notice.",
)
def convert(
    configs: tuple[Path, ...], target: Path, form: str | None, package: str | None, extended: bool
) -> None:
    """Convert configurations from JSON to OpDef XML, or from OpDef XML to JSON.

    xdlc recognizes the format of a file by its content, and merges packages with the same name. If a
    configuration has a problem, xdlc writes no file.
    """
    from xdlc.udo.config import convert as convert_configs

    target = _checked(target)
    _write(convert_configs(configs, target, form=form or "", package=package or "", extended=extended))


@tool("validate")
@_CONFIGS
def validate(configs: tuple[Path, ...]) -> None:
    """Check each configuration, then all together, and list problems by line.

    The summary states which constraints xdlc enforces.
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
    """Draft definitions for the operators of a model that xdlc cannot map.

    xdlc drafts inputs, outputs and parameters from the model's nodes; each description names its node.
    Extra JSON fields named xdlc_NAME store facts that the vendor's format cannot hold.

    If no definition can describe an operator, xdlc reports this operator, writes the remaining operators, and
    exits with code 4. If xdlc can draft no operator, xdlc writes no file.
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
    """Write the XML Schema of OpDef XML, which lets editors check configurations.

    Name the schema in a configuration: xs:noNamespaceSchemaLocation="OpDef.xsd".
    """
    from xdlc.udo.config import schema as schema_file

    _write(schema_file(target if str(target) == "-" else check_target(target)))


@tool("sdk")
@params.source("FILE", "Check this library. Repeatable.", name="libraries", multiple=True)
@click.option(
    "--release",
    default="",
    metavar="RELEASE",
    help="Require that all files have this release, like 2.51 or v2.51.0.",
)
def sdk(libraries: tuple[Path, ...], release: str) -> None:
    """Check that op packages and the HTP backend come from one SDK release.

    xdlc prints the release of each file, and executes no code of the files.
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
    help="Set the value of an attribute, like 3, 1,1,1,1 or a text. Repeatable.",
)
def check_plugin(
    plugin: str, nodes: int, seed: int, input_dims: Any, attributes: tuple[tuple[str, str], ...]
) -> None:
    """Convert random nodes with a plugin, run each kernel, and compare the results.

    xdlc chooses random attributes and shapes of the declared kinds. --attribute and --input-dim set values
    instead. If the plugin has a problem, the exit code is 7.
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
