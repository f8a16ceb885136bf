import re
import shlex
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

import xdlc
from tests.conftest import Models
from tests.support.commands import invoke
from xdlc.cli import main
from xdlc.cli.argv import understood
from xdlc.cli.main import LazyGroup
from xdlc.cli.params import dashed
from xdlc.cli.tool import Tool
from xdlc.cli.vendor_flags import BECOMES, LATER, REFUSED, VOID, WORKS, Entry, entries, sections, vendor_tools
from xdlc.errors import UsageError

CONTEXT = click.Context(main.main)
GROUP = main.main
LIST = Path(__file__).parent / "vendor_flags.txt"
OURS = [name for name in sections() if name.startswith(("xdlc-", "xconv-"))]
CALLED = [*(name for name, tool in vendor_tools().items() if tool), *OURS]


def command(name: str) -> click.Command:
    assert isinstance(GROUP, LazyGroup)
    short = name.removeprefix("xdlc-").removeprefix("xconv-")
    found = GROUP.get_command(CONTEXT, short)
    assert found is not None, name
    return found


def flags(name: str) -> set[str]:
    held = command(name)
    params = held.get_params(click.Context(held))
    return {word for param in params for word in (*param.opts, *param.secondary_opts)} | {*aliases(held)}


def aliases(command: click.Command) -> dict[str, click.Option]:
    return command.aliases if isinstance(command, Tool) else {}


def assert_choices(name: str, words: list[str]) -> None:
    for param in command(name).params:
        if isinstance(param.type, click.Choice):
            given = [value for flag, value in pairwise(words) if flag in param.opts and value != "{}"]
            assert set(given) <= set(param.type.choices), words


def values(entry: Entry) -> list[str]:
    known = next(iter(entry.by_value), "1").replace("*", "x").replace("?", "x")
    return [known] * max(entry.count(["1"] * 9) if entry.values.isdecimal() else 1, 0)


@pytest.mark.parametrize("name", CALLED)
def test_entries_name_flags_that_there_are(name: str) -> None:
    tool_flags = flags(name)
    for entry in entries(name).values():
        if entry.kind == WORKS:
            assert dashed(entry.flag) in tool_flags, entry.flag
        elif entry.kind == LATER:
            tool = sections()[name]["then"]["tool"]
            assert dashed(entry.text.split()[0]) in {*flags(tool), *entries(tool)}, entry
        elif entry.kind == BECOMES:
            for text in (entry.text, *entry.by_value.values()):
                assert_choices(name, text.split())
                assert {word for word in text.split() if word.startswith("-")} <= tool_flags, entry
        else:
            assert entry.text or entry.fix, entry


@pytest.mark.parametrize("name", CALLED)
def test_refused_flags_are_errors_with_their_fix(name: str) -> None:
    refused = [entry for entry in entries(name).values() if entry.kind == REFUSED]
    if name in OURS:
        refused = [entry for entry in refused if dashed(entry.flag) not in flags(name)]
    words = [word for entry in refused for word in (entry.flag, *values(entry))]
    if not refused:
        return
    result = invoke(GROUP, name.removeprefix("xdlc-").removeprefix("xconv-"), *words, code=2)
    for entry in refused:
        assert entry.flag in result.stderr, entry.flag
        assert entry.fix.split("\n")[0] in result.stderr


def test_void_flags_are_taken_with_their_values_and_stated_once() -> None:
    for name in CALLED:
        known = flags(name)
        void = [entry for entry in entries(name).values() if entry.kind == VOID]
        void = [entry for entry in void if name not in OURS or dashed(entry.flag) not in known]
        context = click.Context(command(name), info_name=name)
        words, notices = understood(
            [word for entry in void for word in (entry.flag, *values(entry))], context
        )
        assert words == list(sections()[name].get("adds", ()))
        assert len([n for n in notices if "has no effect" in n]) == len(void)


@pytest.mark.parametrize(
    ("name", "given", "read", "notice"),
    [
        (
            "graph-prepare",
            ["\u2013-input_dlc", "a"],
            ["--input", "a"],
            "the typographic dash as hyphens: --input_dlc",
        ),
        ("graph-prepare", ["\u2014partition"], ["--partition"], "--partition"),
        ("quantize", ["\u2013enable_htp"], ["--enable_htp"], "the typographic dash as hyphens: --enable_htp"),
        ("quant", ["\u2013i", "\u2013a.dlc"], ["-i", "\u2013a.dlc"], "the typographic dash as hyphens: -i"),
        ("quantize", ["--htp_socs", "sm855", "0,sm8650"], ["--prepare", "sm8550,sm8650"], "sm8550"),
        ("quantize", ["--htp_socs", "sm8550,", "sm8650"], ["--prepare", "sm8550,sm8650"], ""),
        ("net-run", ["--soc", "sm855", "0"], ["--soc", "sm8550"], "sm8550"),
        ("net-run", ["--debug"], ["--debug"], "--dump_all_tensors"),
        ("quant", ["--debug"], ["--debug"], ""),
        ("quantize", ["--htp_socs", "sm8550", "sm8650"], ["--prepare", "sm8550,sm8650"], ""),
        ("quantize", ["--enable_htp=true", "--use_float_io", "False"], ["--enable_htp"], ""),
        ("snpe-net-run", ["--use_dsp=0", "--use_cpu=1"], ["--runtime", "cpu"], "--use_dsp has no effect"),
        ("quant", ["--axis_quant=false"], ["--no_per_channel_quantization"], ""),
        ("snpe-net-run", ["--debug=false"], [], "has no effect"),
        ("quant", ["--use_per_row_quantization=0"], ["--no_per_row_quantization"], ""),
        ("quant", ["--bitwidth", "8"], "--weights_bitwidth 8 --act_bitwidth 8 --bias_bitwidth 8".split(), ""),
        (
            "snpe-dlc-quantize",
            ["--use_enhanced_quantizer"],
            "--act_quantizer_calibration sqnr --param_quantizer_calibration sqnr".split(),
            "other defaults",
        ),
        (
            "quant",
            ["--use_enhanced_quantizer", "--use_adjusted_weights_quantizer"],
            "--act_quantizer_calibration sqnr --param_quantizer_calibration min-max".split(),
            "",
        ),
        (
            "quant",
            ["--param_quantizer", "symmetric", "--act_quantizer", "mse", "--weights_bw=4", "--axis_quant"],
            "--param_quantizer_calibration min-max --param_quantizer_schema symmetric "
            "--act_quantizer_calibration mse --weights_bitwidth 4 --use_per_channel_quantization".split(),
            "",
        ),
        ("quant", ["--optimizations", "cle", "bc"], ["--algorithms", "cle,bc"], ""),
        ("quant", ["--dump_encoding_json", "e.json"], ["--export_encodings", "e.json"], ""),
        ("quantize", ["--override_params"], [], "--ignore_quantization_overrides"),
        ("onnx-to-dlc", ["-d", "x", "1,", "3,", "8"], ["-d", "x", "1,3,8"], ""),
        (
            "snpe-net-run",
            ["--use_dsp", "--perf_profile", "burst", "--debug"],
            ["--runtime", "htp", "--dump_all_tensors"],
            "--perf_profile",
        ),
        (
            "snpe-net-run",
            ["--runtime_order", "gpu_float16,dsp,cpu"],
            ["--runtime", "htp", "--enable_cpu_fallback"],
            "GPU",
        ),
    ],
)
def test_words_as_they_are_pasted(name: str, given: list[str], read: list[str], notice: str) -> None:
    found, notices = understood(given, click.Context(command(name), info_name=name))
    assert found == list(map(dashed, read))
    assert bool(notices) == bool(notice)
    assert not notice or notice.replace("_", "-") in notices[0].replace("_", "-")


@pytest.mark.parametrize(
    ("name", "given", "fix"),
    [
        ("quant", ["-opl", "a"], "--udo_package_path"),
        ("onnx-to-dlc", ["-i", "a", "-i", "b"], "write -i, once"),
        ("qnn-onnx-converter", ["--act_bw", "16"], "--input_list or --float_fallback,"),
        ("quant", ["--bitwidth", "8", "--act_bw", "16"], "write --bitwidth or --act_bw, once"),
        ("quant", ["--axis_quant", "--no_per_channel_quantization"], "--no_per_channel_quantization, once"),
        ("quant", ["--param_quantizer", "enhanced", "--use_symmetric_quantize_weights"], "once"),
        ("quantize", ["--no_weight_quantization"], "--float_ops"),
        ("quantize", ["--enable_htp=2"], "write --enable_htp alone"),
        ("net-run", ["--use_dsp", "--runtime", "cpu"], "once"),
        ("snpe-net-run", ["--perf_profile", "--use_dsp"], "--perf_profile VALUE"),
        ("snpe-net-run", ["--runtime_order", "gpu"], "cpu"),
        ("snpe-net-run", ["--use_dsp=fast"], "omit fast"),
        ("snpe-dlc-info", ["-s", "-m"], "write -s FILE.csv"),
        ("onnx-to-dlc", ["--input_dim", "x", "--dry_run"], "write --input_dim NAME"),
    ],
)
def test_wrong_words(name: str, given: list[str], fix: str) -> None:
    with pytest.raises(UsageError) as caught:
        understood(given, click.Context(command(name), info_name=name))
    assert fix.replace("_", "-") in str(caught.value.fix).replace("_", "-")


def test_tools_without_a_counterpart() -> None:
    for name, tool in vendor_tools().items():
        if tool is None:
            result = invoke(GROUP, name, "-i", "a", code=2)
            assert "no counterpart" in result.stderr


def test_every_flag_of_the_vendor_has_an_entry() -> None:
    lines = re.sub(r"\n  ", " ", LIST.read_text()).splitlines()[1:]
    listed: dict[str, set[str]] = {}
    for name, _, words in (line.partition(":") for line in lines):
        given = words.split()
        shared = [given[i + 1] for i, word in enumerate(given) if word == "+"]
        own = {word for word in given if word.startswith("-")}
        listed[name] = own.union(*(listed[each] for each in shared))
    tools = {name: words for name, words in listed.items() if re.match("snpe|qnn-|qnn_|qairt", name)}
    assert len(tools) == 42
    for name, words in tools.items():
        flags = {entry.flag for entry in entries(name).values()} if vendor_tools()[name] else set()
        patterns = " ".join(sections()[name].get("flags", ())).split()
        lacking = {w for w in words - flags if not any(fnmatchcase(w, each) for each in patterns)}
        assert not lacking, name


def test_tools_that_run_afterwards(models: Models) -> None:
    path = models.save(models.cnn())
    words = ["-i", str(path), "--input_list", str(path), "--dry_run"]
    result = invoke(GROUP, "qnn-onnx-converter", *words)
    assert sections()["quantizing"]["note"] in result.stderr
    assert "xdlc writes no DLC" in result.stderr


def test_the_command_of_a_warning_works_with_the_vendors_names(models: Models, tmp_path: Path) -> None:
    path, samples = models.save(models.cnn()), tmp_path / "samples.npy"
    images = np.random.default_rng(0).standard_normal((4, 3, 16, 16)).astype(np.float32)
    images[:, 0, 0, 0] = 1e5
    np.save(samples, images)
    words = ["-i", str(path), "-o", str(tmp_path / "net.dlc"), "--input_list", str(samples)]
    words += ["--act_bw", "8", "--weight_bw", "8", "--act_quantizer", "tf", "--ignore_encodings"]
    first = CliRunner().invoke(GROUP, ["qnn-onnx-converter", *words])
    assert "--act-bitwidth 16" in first.stderr
    for advised in ("", " --float_ops y --act_bitwidth_of y 16 --accuracy best --min_sqnr 9 --report r.html"):
        command_line = shlex.split(first.stderr.rpartition(": xdlc ")[2] + advised)
        understood(command_line[1:], click.Context(command(command_line[0]), info_name=command_line[0]))
    assert CliRunner().invoke(GROUP, command_line[: -len(advised.split())]).exit_code == 0
    assert xdlc.load(tmp_path / "net.dlc").main.tensors["y"].dtype.bits == 16


def test_the_vendors_flag_is_named_until_the_fix_works(models: Models, tmp_path: Path) -> None:
    words = ["qairt-converter", "-i", str(models.save(models.cnn())), "-o", str(tmp_path / "net.dlc")]
    flag = "--source_model_input_shape"
    for given in (("inpt", "1,3,16,16"), ("x", "1,3,16"), ("x", "no"), ("x",)):
        result = invoke(GROUP, *words, flag, *given, code=2)
        assert flag in result.stderr
        assert "--input_dim" not in result.stderr
    assert f"write {flag} VALUE VALUE" in result.stderr
    assert CliRunner().invoke(GROUP, [*words, flag, "x", "1,3,16,16"]).exit_code == 0


def test_flags_of_the_tool_that_runs_afterwards_are_named_too(models: Models) -> None:
    path = str(models.save(models.cnn()))
    words = ["qnn-onnx-converter", "-i", path, "--input_list", path, "--act_bw"]
    result = invoke(GROUP, *words, "13", code=2)
    assert "--act_bw:" in result.stderr
    fix = re.search(r"fix: write --act_bw (\d+)", result.stderr)
    assert fix is not None
    assert CliRunner().invoke(GROUP, [*words, fix[1], "--dry_run"]).exit_code == 0


@pytest.mark.parametrize("name", ["N\rX.onnx", "N\u200bX.onnx", "N\u2013X.onnx", "N\u00a0X.onnx"])
def test_names_of_existing_files_stay(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    given = ["-i", str(tmp_path / name)], [f"--input_network={tmp_path / name}"]
    for words in given:
        found, notices = understood(words, click.Context(command("convert"), info_name="convert"))
        assert (found[-1].removeprefix("--input="), notices) == (str(tmp_path / name), [])
