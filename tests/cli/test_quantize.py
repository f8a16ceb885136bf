"""The tool that quantizes and prepares in one go."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from click.testing import CliRunner

import xdlc
from tests.support.commands import invoke
from tests.support.section_models import residual
from xdlc.cli.tools import onnx_to_dlc, quantize
from xdlc.container.caches import caches
from xdlc.quant import known_algorithms, known_range_methods
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.sections import SectionSession


@pytest.fixture
def dlc(models: Any) -> Path:
    path: Path = models.folder / "net.dlc"
    invoke(onnx_to_dlc, "-i", models.save(models.cnn(), "net.onnx"))
    return path


@pytest.fixture
def listing(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    for number in range(3):
        rng.standard_normal((1, 3, 16, 16)).astype("<f4").tofile(tmp_path / f"{number}.raw")
    path = tmp_path / "list.txt"
    path.write_text("\n".join(str(tmp_path / f"{number}.raw") for number in range(3)))
    return path


def image() -> dict[str, Any]:
    return {"x": np.random.default_rng(5).standard_normal((1, 3, 16, 16)).astype(np.float32)}


def test_sections_are_added_and_run_as_the_whole(dlc: Path, listing: Path, tmp_path: Path) -> None:
    target = tmp_path / "q.dlc"
    result = invoke(quantize, "--input-dlc", dlc, "-l", listing, "-o", target, "--enable-hta")
    assert "section HTA: layers " in result.stdout
    assert f"written: {target}" in result.stdout
    model = xdlc.load(target)
    whole = CpuSession(model).run(image(), native=True)
    parts = SectionSession(model).run(image(), native=True)
    for name, stored in whole.items():
        assert np.abs(stored.astype(int) - parts[name].astype(int)).max() <= 1


def test_several_socs_with_hta_are_judged_as_such(dlc: Path, listing: Path, tmp_path: Path) -> None:
    words = ["--input-dlc", dlc, "-l", listing, "--enable-hta", "--no-per-channel-quantization"]
    words += ["--no-per-row-quantization", "-o", tmp_path / "q.dlc"]
    assert "section HTA: layers " in invoke(quantize, *words, "--soc", "sm8250,sm8150").stdout
    assert "--enable-hta: sm8650" in invoke(quantize, *words, "--soc", "sm8250,sm8650", code=2).stderr


def test_a_quantized_dlc_is_prepared_again_without_samples(dlc: Path, listing: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "1.dlc", tmp_path / "2.dlc"
    invoke(quantize, "--input-dlc", dlc, "-l", listing, "-o", first)
    result = invoke(quantize, "--input-dlc", first, "-o", second, "--enable-hta")
    assert "already quantized" in result.stdout
    held = xdlc.load(second)
    assert [t.encoding for t in held.main.outputs] == [t.encoding for t in xdlc.load(first).main.outputs]
    assert any(name.startswith("xdlc.aip.") for name in held.records)


def test_refused_ranges_leave_a_quantized_dlc_without_sections(tmp_path: Path) -> None:
    dlc, target = tmp_path / "m.dlc", tmp_path / "q.dlc"
    residual().save(dlc)
    words = ["--input-dlc", dlc, "-o", target, "--enable-hta", "--hta-partitions"]
    result = invoke(quantize, *words, "10-11", code=5)
    assert "HTA does not support layer 11" in result.stderr
    assert f"written: {target}" in result.stdout
    assert not any(name.startswith("xdlc.aip.") for name in xdlc.load(target).records)
    target.unlink()
    result = invoke(quantize, *words, "5-2", code=2)
    assert "the range 5-2 is reversed" in result.stderr
    assert not target.exists()


def test_what_keeps_sections_away_keeps_no_quantized_dlc_away(
    dlc: Path, listing: Path, tmp_path: Path
) -> None:
    target = tmp_path / "q.dlc"
    words = ["--input-dlc", dlc, "-l", listing, "-o", target, "--enable-hta", "--hta-partitions", "0-9999"]
    result = invoke(quantize, *words, code=2)
    assert "the range 0-9999 exceeds the last layer" in result.stderr
    assert f"written: {target}" in result.stdout
    assert any(tensor.dtype.is_fixed for op in xdlc.load(target).main.ops for tensor in op.outputs)


@pytest.mark.parametrize(
    ("soc", "code", "said"), [("sm9999", 2, "sm9999"), ("sm8250", 5, "sm8250 has no HTP")]
)
def test_socs_are_looked_at_before_the_long_work(
    dlc: Path, tmp_path: Path, soc: str, code: int, said: str
) -> None:
    words = ["--input-dlc", dlc, "-l", tmp_path / "no.txt", "--enable-htp", "--htp-socs", soc]
    (tmp_path / "no.txt").write_text("no.raw\n")
    assert said in invoke(quantize, *words, code=code).stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--hta-partitions", "0-1"], "--hta-partitions requires --enable-hta"),
        (["--use-float-io"], "--use-float-io requires --prepare"),
        (["--hta-reorder"], "--hta-reorder requires --enable-hta"),
        (["--enable-hta", "--target", "sm8550"], "sm8550 (v73) has no HTA"),
    ],
)
def test_flags_that_go_together(dlc: Path, words: list[str], said: str) -> None:
    assert said in invoke(quantize, "--input-dlc", dlc, *words, code=2).stderr


def test_the_default_soc(dlc: Path, tmp_path: Path) -> None:
    (tmp_path / "no.txt").write_text("no.raw\n")
    result = invoke(quantize, "--input-dlc", dlc, "-l", tmp_path / "no.txt", "--enable-htp", code=8)
    assert "sm8650" in result.stderr


def test_unquantized_without_samples_is_refused(dlc: Path) -> None:
    assert invoke(quantize, "--input-dlc", dlc, "--enable-hta", code=2).stderr


@pytest.mark.vendor
def test_caches_are_added(dlc: Path, listing: Path, tmp_path: Path) -> None:
    target = tmp_path / "q.dlc"
    words = ["--enable-htp", "--htp-socs", "sm8550,sm8350", "--enable-hta"]
    result = invoke(quantize, "--input-dlc", dlc, "-l", listing, "-o", target, *words)
    assert "cache htp.cache.sm8350.0: SM8350, v68" in result.stdout
    assert {cache.soc for cache in caches(xdlc.load(target))} == {"sm8350", "sm8550"}


@pytest.mark.vendor
def test_widths_are_those_that_the_oldest_soc_takes(models: Any, listing: Path, tmp_path: Path) -> None:
    net = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> net (float[1,3,16,16] x) => (float[1,3,16,16] y) '
        "{ s = Sigmoid(x) y = MatMul(x, s) }"
    )
    invoke(onnx_to_dlc, "-i", models.save(net, "net.onnx"))
    target = tmp_path / "q.dlc"
    words = ["-l", listing, "-o", target, "--act-bitwidth", 16, "--enable-htp", "--htp-socs", "sm8550,sm8450"]
    result = invoke(quantize, "--input-dlc", models.folder / "net.dlc", *words)
    assert "v69 of sm8450" in result.stdout + result.stderr
    assert {cache.soc for cache in caches(xdlc.load(target))} == {"sm8450", "sm8550"}


def test_a_quantized_dlc_is_requantized(dlc: Path, tmp_path: Path) -> None:
    import numpy as np

    import xdlc

    samples = tmp_path / "samples.npz"
    np.savez(samples, x=np.random.default_rng(0).standard_normal((2, 1, 3, 16, 16)).astype(np.float32))
    once, twice = tmp_path / "once.dlc", tmp_path / "twice.dlc"
    invoke(quantize, "-i", dlc, "-l", samples, "-o", once)
    words = ["-i", once, "-l", samples, "-o", twice, "--act-bitwidth", 16]
    for more in ([], ["--ignore-quantization-overrides"]):
        assert "--requantize" in invoke(quantize, *words, *more, code=2).stderr
    invoke(quantize, *words, "--requantize")
    assert xdlc.load(twice).main.outputs[0].dtype.name == "ufixed16"


def test_a_lost_output_is_warned_of_last_and_fails_where_that_is_wanted(dlc: Path, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).standard_normal((5, 1, 3, 16, 16)).astype(np.float32)
    values = noise.cumsum(axis=-1).cumsum(axis=-2) / 10.0  # smooth, as pictures are
    values[4] *= 1000.0  # held out: the ranges of the others cut it off
    samples, target = tmp_path / "samples.npz", tmp_path / "out.dlc"
    np.savez(samples, x=values)
    words = ["--input-dlc", dlc, "-l", samples, "-o", target]
    last = invoke(quantize, *words).stderr.splitlines()[-1]
    assert "warning: output " in last
    assert last.endswith(f"-o {target} --accuracy best")
    assert "warning: output " in invoke(quantize, *words, "--quiet").stderr
    target.unlink()
    failed = invoke(quantize, *words, "--fail-below", 5, "--json", code=5)
    assert "fix: " in failed.stderr
    assert not target.exists()
    content = json.loads(failed.stdout)
    (problem,) = content["problems"]
    assert f"{content['sqnr']:.1f} dB" in problem["problem"]
    assert [output["name"] for output in content["outputs"]] == ["y"]


def test_a_metric_of_the_user_is_kept(dlc: Path, listing: Path, tmp_path: Path) -> None:
    path = tmp_path / "metric.py"
    path.write_text("def score(run):\n    return 1\n")
    words = ("--input-dlc", dlc, "-l", listing, "-o", tmp_path / "q.dlc", "--evaluate", f"{path}:score")
    assert "score is 1, the goal 0.5" in invoke(quantize, *words, "--min-score", 0.5).stdout
    assert "warning" in invoke(quantize, *words, "--min-score", 2).stderr
    assert "--min-score" in invoke(quantize, *words, code=2).stderr


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        *(("--act-quantizer-calibration", name) for name in known_range_methods()),
        *(("--param-quantizer-calibration", name) for name in known_range_methods()),
        *(("--algorithms", name) for name in known_algorithms()),
    ],
)
def test_every_registered_name_is_one_of_the_tool(
    dlc: Path, listing: Path, tmp_path: Path, flag: str, name: str
) -> None:
    words = ("-i", dlc, "-l", listing, "-o", tmp_path / "q.dlc", flag, name)
    invoke(quantize, *words, *(("--min-sqnr", 1) if name == "mixed_precision" else ()))
    assert name in CliRunner().invoke(quantize.main, ["--help-all"]).output


def test_the_note_on_clipped_weights_is_a_flag_that_works(dlc: Path, listing: Path, tmp_path: Path) -> None:
    words = ("-i", dlc, "-l", listing, "-o", tmp_path / "q.dlc", "--weights-bitwidth", 4)
    notes = [line for line in invoke(quantize, *words).stdout.splitlines() if "xdlc clips" in line]
    flag = notes[0].rpartition("; ")[2].removesuffix(" clips none")
    assert flag == "--param-quantizer-calibration min-max"
    assert "xdlc clips" not in invoke(quantize, *words, *flag.split()).stdout


@pytest.mark.parametrize(
    "name", ["adjust_bias_encoding", "bias_correction", "bound_attention_masks", "drop_nan_checks"]
)
def test_steps_that_change_weights_have_a_flag(dlc: Path, listing: Path, tmp_path: Path, name: str) -> None:
    words = ("-i", dlc, "-l", listing, "-o", tmp_path / "q.dlc")
    for flag, stated in ((f"--no_{name}", "False"), (f"--{name}", None)):
        invoke(quantize, *words, flag)
        assert xdlc.load(tmp_path / "q.dlc").metadata["history"][-1]["args"].get(name) == stated


def test_tensors_are_tied_by_a_flag_of_several_words(dlc: Path, listing: Path, tmp_path: Path) -> None:
    names = [op.outputs[0].name for op in xdlc.load(dlc).main.ops if op.type == "Conv2d"]
    target = tmp_path / "q.dlc"
    invoke(quantize, "--input-dlc", dlc, "-l", listing, "-o", target, "--tie", "x", *names)
    tensors = xdlc.load(target).main.tensors
    assert len({tensors[name].encoding for name in ("x", *names)}) == 1
    result = invoke(quantize, "--input-dlc", dlc, "-l", listing, "-o", target, "--tie", "x", "y1", code=2)
    assert "--tie" in result.output
