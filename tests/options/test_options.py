"""Options, stated once: flags, help, signatures and defaults follow."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping
from typing import Any, Unpack

import click
import numpy as np
import pytest
from click.testing import CliRunner

from xdlc import api
from xdlc.api.verbs import verb
from xdlc.cli import quant_flow
from xdlc.cli.params import flags_of
from xdlc.cli.tool import tool
from xdlc.cli.tools import convert, graph_prepare, net_run, quantize
from xdlc.converter.frontends import frontends
from xdlc.errors import UsageError
from xdlc.options import Option, check_values, options_of
from xdlc.options.graphs import (
    AnnotateOptions,
    BoundaryOptions,
    ConvertOptions,
    DraftOptions,
    ExportOptions,
    PrepareOptions,
)
from xdlc.options.quantizing import QuantizeOptions
from xdlc.options.running import RunOptions
from xdlc.quant.overrides import ENCODING_VERSIONS

MAPPINGS = (
    ConvertOptions,
    AnnotateOptions,
    QuantizeOptions,
    PrepareOptions,
    BoundaryOptions,
    RunOptions,
    ExportOptions,
    DraftOptions,
)
TOOLS: Mapping[click.Command, tuple[type, ...]] = {
    convert.main: (ConvertOptions, AnnotateOptions),
    quantize.main: (QuantizeOptions,),
    graph_prepare.main: (PrepareOptions,),
    net_run.main: (),
}
NO_FLAGS = {"executor", "importer_options", "framework", "dynamic_shapes", "timeout", "input_dimensions"}


@pytest.mark.parametrize("mapping", [*MAPPINGS, *(each.options for each in frontends().values())])
def test_every_option_is_described(mapping: type) -> None:
    names = dict.fromkeys(options_of(mapping), "--flag")
    for name, option in options_of(mapping).items():
        assert re.match(r"[A-Z0-9].*\.$", option.help.format_map(names)), name
        default = option.default
        assert not option.choices or default in (None, (), *option.choices), name


@pytest.mark.parametrize(
    ("verb", "mapping"),
    [
        (api.convert, ConvertOptions),
        (api.check, ConvertOptions),
        (api.annotate, AnnotateOptions),
        (api.quantize, QuantizeOptions),
        (api.prepare, PrepareOptions),
        (api.run, RunOptions),
        (api.to_onnx, ExportOptions),
        (api.draft_udo_config, DraftOptions),
        (api.kernels, None),
    ],
)
def test_signature_and_documentation_follow(verb: Any, mapping: type | None) -> None:
    parameters = inspect.signature(verb).parameters
    assert not any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    for name, option in options_of(mapping).items() if mapping else ():
        assert parameters[name].default == option.default
        assert f"        {name}: " in verb.__doc__


def test_a_changed_default_shows_in_help_signature_and_behaviour(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "percentile_calibration_value"
    changed = dataclasses.replace(options_of(QuantizeOptions)[name], default=97.5)
    table = {**options_of(QuantizeOptions), name: changed}
    for module in ("xdlc.api.verbs", "xdlc.cli.params", "xdlc.quant.options"):
        monkeypatch.setattr(f"{module}.options_of", lambda mapping: table)
    from xdlc.quant.options import QuantOptions

    @tool("x")
    @flags_of(QuantizeOptions)
    def command(**options: Any) -> None: ...

    help_text = " ".join(CliRunner().invoke(command, ["--help"]).stdout.split())
    assert "in the range. [default: 97.5]" in help_text
    assert inspect.signature(verb(quantizing)).parameters[name].default == 97.5
    assert QuantOptions().percentile_calibration_value == 97.5


def quantizing(**options: Unpack[QuantizeOptions]) -> None:
    """Do nothing.

    Args:
        **options: Options.
    """


def value_of(param: click.Option) -> list[str]:
    """Return words for the values of an option."""
    kinds = param.type.types if isinstance(param.type, click.Tuple) else [param.type]
    words = []
    for kind in kinds:
        if isinstance(kind, click.Choice):
            words.append(str(kind.choices[0]))
        elif isinstance(kind, click.IntRange | click.FloatRange):
            words.append(str(int(kind.min or 1)))
        elif param.name in ("restrict_quantization_steps", "input_dims"):
            words.append("-128,127")
        else:
            words.append("1")
    return words


@pytest.mark.parametrize("command", TOOLS)
def test_every_flag_is_read(command: click.Command) -> None:
    """Every flag of a table is one of the tool, and its value reaches the option."""
    options = {name for mapping in TOOLS[command] for name in options_of(mapping)} - NO_FLAGS
    params = {param.name: param for param in command.params if isinstance(param, click.Option)}
    for name in options - params.keys():
        assert name in ("preserve_io_datatype", "weights"), name
    for name in options & params.keys():
        param = params[name]
        for flag in (*param.opts, *param.secondary_opts):
            words = [] if param.is_flag else value_of(param)
            required = [word for each in params.values() if each.required for word in (each.opts[-1], "m")]
            context = command.make_context("x", [*required, flag, *words])
            assert context.params[name] not in (None, (), {}), flag


def test_choices_are_checked() -> None:
    for options in ({"accuracy": "slow"}, {"act_bitwidth": 7}, {"act_bitwidth_of": {"y": 7}}):
        with pytest.raises(UsageError, match="expected one of"):
            api.quantize("m.dlc", [], **options)  # type: ignore[arg-type]


def test_limits_of_zero_are_checked() -> None:
    with pytest.raises(UsageError) as caught:
        check_values(ConvertOptions, {"unroll_loops": -1})
    assert caught.value.where == "unroll_loops"
    check_values(ConvertOptions, {"unroll_loops": 0})


def test_numbers_of_numpy_are_checked_as_others() -> None:
    for options in ({"act_bitwidth": np.int64(7)}, {"act_bitwidth_of": {"y": np.array(7)}}):
        with pytest.raises(UsageError, match="expected one of 8, 16, found 7"):
            api.quantize("m.dlc", [], **options)
    with pytest.raises(UsageError, match="expected a number from 1 to 1024, found 0"):
        api.quantize("m.dlc", [], jobs=np.int64(0))


def test_versions_of_encodings_are_those_that_are_written() -> None:
    assert tuple(ENCODING_VERSIONS) == quant_flow.VERSIONS


def test_options_refer_to_each_other_by_name() -> None:
    assert "--evaluate" in " ".join(CliRunner().invoke(quantize.main, ["--help-all"]).stdout.split())
    assert "``evaluate``" in str(api.quantize.__doc__)
    with pytest.raises(KeyError):
        Option("Least number that {nothing} returns.").help.format_map({})
