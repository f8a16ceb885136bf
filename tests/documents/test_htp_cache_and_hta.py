"""The vendor's pages on HTP caches and HTA sections: their commands, run.

Names of files are other ones.  On the host nothing runs on an HTA: a section holds its sub-graph.
"""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import xdlc
from tests.documents import inception
from tests.support.section_models import residual
from xdlc.cli.main import main
from xdlc.runtime.section_record import layer_ids

QUANT = "snpe-dlc-quant --input_dlc net.dlc --input_list list.txt --output_dlc net_quantized.dlc"
PREPARE = "snpe-dlc-graph-prepare --input_dlc net_quantized.dlc --output_dlc net_cached.dlc --htp_socs sm8550"
QUANTIZE = "snpe-dlc-quantize --input_dlc net.dlc --input_list list.txt --output_dlc net_quantized.dlc"
TWO = [("HTA", 0, 11), ("HNN", 12, 176), ("HTA", 177, 215)]
AGAIN = "snpe-dlc-quantize --input_dlc net_quantized.dlc --output_dlc again.dlc --enable_hta"


def call(line: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, shlex.split(line))
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("net")
    xdlc.convert(inception.save(folder / "net.onnx")).save(folder / "net.dlc")
    rng = np.random.default_rng(0)
    for number in range(2):
        rng.random(inception.SHAPE).astype("<f4").tofile(folder / f"{number}.raw")
    (folder / "list.txt").write_text("0.raw\n1.raw\n")
    return folder


@pytest.fixture
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


@pytest.fixture(scope="module")
def quantized(made: Path) -> Path:
    """Return the folder after the command line with two sections."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        said = call(f"{QUANTIZE} --enable_hta --hta_partitions 0-11,177-215").output
    assert "section HTA: layers 177-215" in said
    return made


def sections(dlc: str) -> list[tuple[str, int, int]]:
    (record,) = json.loads(call(f"snpe-dlc-info -i {dlc} --json").stdout)["aip"]
    return [(one["engine"], one["first_layer"], one["last_layer"]) for one in record["sections"]]


def test_two_sections_as_printed(quantized: Path, folder: Path) -> None:
    assert sections("net_quantized.dlc") == TWO
    shown = call("snpe-dlc-info -i net_quantized.dlc").stdout
    for words in ("HTA  layers 0-11,", "HNN  layers 12-176", "HTA  layers 177-215,"):
        assert words in shown
    run = "snpe-net-run --container net_quantized.dlc --input_list list.txt"
    plain = call(f"{run} --output_dir whole")
    parts = call(f"{run} --use_aip --output_dir parts")
    assert "layers 0-11, 177-215 on HTA" in parts.stdout
    assert "section" not in plain.stdout
    (name,) = [tensor.name for tensor in xdlc.load("net_quantized.dlc").main.outputs]
    for number in range(2):
        whole, found = (folder / side / f"Result_{number}" / f"{name}.raw" for side in ("whole", "parts"))
        np.testing.assert_array_equal(np.fromfile(whole, "<f4"), np.fromfile(found, "<f4"))


def test_old_records_are_replaced_with_a_notice(quantized: Path, folder: Path) -> None:
    said = call(f"{AGAIN} --hta_partitions 0-11")
    assert "drops the AIP record" in said.stderr
    assert "layers 0-11, 177-215" in said.stderr
    assert sections("again.dlc") == [("HTA", 0, 11), ("HNN", 12, 215)]


def test_the_largest_part_is_chosen_by_default(quantized: Path, folder: Path) -> None:
    call(AGAIN)
    assert sections("again.dlc") == [("HTA", 0, 215)]


def test_many_sections_are_warned_of_with_figures(quantized: Path, folder: Path) -> None:
    many = ",".join(f"{first}-{first + 4}" for first in range(0, 210, 10))
    said = call(f"{AGAIN} --hta_partitions {many}")
    assert "warning: " in said.stderr
    assert "41 crossings between sections" in said.stderr
    assert "requantizes" in said.stderr
    assert "warning: " not in call(f"{AGAIN} --hta_partitions 0-11,177-215").stderr


@pytest.mark.slow
def test_another_order_of_layers_has_fewer_fragments(quantized: Path, folder: Path) -> None:
    # Of each block the branch of a pool, a convolution and its function stays on HNN: not in one piece.
    branch = {first + place for first in range(4, 204, 10) for place in (0, 7, 8)}
    kept = [id for id in range(inception.LAYERS) if id not in branch]
    runs = [id for id in kept if id - 1 not in kept], [id for id in kept if id + 1 not in kept]
    ranges = ",".join(f"{first}-{last}" for first, last in zip(*runs, strict=True))
    call(f"{AGAIN} --hta_partitions {ranges}")
    before = len(sections("again.dlc"))
    said = call(f"{AGAIN} --hta_partitions {ranges} --hta_reorder")
    assert f"41 sections instead of {before}" in said.stderr
    assert len(sections("again.dlc")) == 41 < before == 81
    assert list(layer_ids(xdlc.load("again.dlc")).values()) == list(range(inception.LAYERS))


def test_a_part_that_hta_refuses_is_an_error_and_the_dlc_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    residual().save(tmp_path / "net_quantized.dlc")
    said = call(f"{AGAIN} --hta_partitions 0-11", code=5)
    assert "HTA does not support layer 11" in said.stderr
    assert not xdlc.load("again.dlc").records.keys() & {"xdlc.aip.metadata0", "aip.metadata0"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--enable_hta", [("HTA", 0, 215)]),
        ("--enable_hta --hta_partitions 0-11", [("HTA", 0, 11), ("HNN", 12, 215)]),
        # With the dash of the page's typesetting.
        ("\u2013enable_hta", [("HTA", 0, 215)]),
        ("\u2013enable_hta \u2013hta_partitions 0-11,177-215", TWO),
    ],
)
def test_sections_as_printed(folder: Path, flags: str, expected: object) -> None:
    said = call(f"{QUANTIZE.replace('net_quantized', 'other')} {flags}")
    assert ("as hyphens: --enable_hta" in said.stderr) == (not flags.isascii())
    assert sections("other.dlc") == expected


@pytest.fixture
def cached(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which the pages' two steps ran: quantize and prepare."""
    shutil.copytree(made, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    call(QUANT)
    assert "cache htp.cache.sm8550.0" in call(PREPARE).stdout
    return tmp_path / "copy"


@pytest.mark.vendor
def test_two_steps_as_printed_with_the_misprint_and_on_other_dlcs(cached: Path) -> None:
    said = call(PREPARE.replace("sm8550", "sm855 0").replace("net_cached", "other"))
    assert "sm8550" in said.stderr
    assert Path("other.dlc").read_bytes() == Path("net_cached.dlc").read_bytes()
    call("snpe-dlc-graph-prepare --input_dlc net.dlc --output_dlc float.dlc --htp_socs sm8550")
    again = "snpe-dlc-graph-prepare --input_dlc net_cached.dlc --output_dlc again.dlc --htp_socs sm8550"
    assert "kept" in call(again).stdout
    assert "compiled" in call(f"{again} --overwrite_cache_records").stdout


@pytest.mark.vendor
def test_one_step_as_printed_is_the_old_way(cached: Path) -> None:
    for dash in ("--", "\u2013"):
        said = call(f"{QUANTIZE.replace('net_quantized', 'one')} {dash}enable_htp --htp_socs sm8550")
        assert "cache htp.cache.sm8550.0" in said.stdout


@pytest.mark.vendor
def test_a_cache_serves_the_outputs_that_it_was_prepared_for(cached: Path) -> None:
    run = "snpe-net-run --container net_cached.dlc --input_list list.txt --use_dsp"
    assert "from htp.cache.sm8550.0" in call(run).output
    said = call(f"{run} --set_output_tensors t215,t50")
    assert "t50" in said.stderr
    assert (Path("output") / "Result_1" / "t50.raw").is_file()
