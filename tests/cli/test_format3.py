"""The tools with containers of format 3: sections for HTA in the records that SNPE 1 has for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import xdlc
from tests.section_models import feeds_of, residual
from xdlc.cli import info, net_run, quantize
from xdlc.container.aip_record import OWN_FLAVOUR
from xdlc.ir.equality import differences


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = residual()
    model.save(tmp_path / "whole.dlc")
    feeds_of(model)["x"].tofile(tmp_path / "0.raw")
    (tmp_path / "list.txt").write_text(str(tmp_path / "0.raw"))
    return tmp_path


def invoke(command: Any, *words: object, code: int = 0) -> Result:
    result = CliRunner().invoke(command.main, [*map(str, words)])
    assert result.exit_code == code, result.output
    return result


def ran(folder: Path, dlc: str, *words: str) -> tuple[Result, Any]:
    given = ["--container", folder / dlc, "--input_list", folder / "list.txt", "--output_dir", folder / "out"]
    result = invoke(net_run, *given, *words)
    return result, np.fromfile(folder / "out" / "Result_0" / "t17.raw", "<f4")


def prepared(folder: Path, source: str, target: str, *words: str) -> Result:
    given = ["--input_dlc", folder / source, "--output_dlc", folder / target, "--enable_hta", *words]
    return invoke(quantize, *given, "--dlc_version", "3")


def test_sections_are_written_shown_and_run(folder: Path) -> None:
    made = prepared(folder, "whole.dlc", "hta.dlc", "--hta_partitions", "13-13,15-16")
    assert "only xdlc reads them" in made.stderr
    assert "begins with 1 Input layer(s): their ids are not those of the operations" in made.stderr
    model = xdlc.load(folder / "hta.dlc")
    assert (model.metadata["version"], list(model.records)) == ("3.0", ["aip.metadata0"])
    (record,) = json.loads(invoke(info, "-i", folder / "hta.dlc", "--json").stdout)["aip"]
    assert (record["record"], record["flavour"]) == ("aip.metadata0", OWN_FLAVOUR)
    spans = [(one["engine"], one["first_layer"], one["last_layer"]) for one in record["sections"]]
    assert spans == [("HNN", 0, 13), ("HTA", 14, 14), ("HNN", 15, 15), ("HTA", 16, 17), ("HNN", 18, 18)]
    _, whole = ran(folder, "whole.dlc")
    said, parts = ran(folder, "hta.dlc", "--use_aip")
    assert "runs: 5 sections, layers 14, 16-17 on HTA" in said.stdout.replace("14-14", "14")
    np.testing.assert_array_equal(parts, whole)


def test_old_records_are_replaced(folder: Path) -> None:
    prepared(folder, "whole.dlc", "a.dlc", "--hta_partitions", "13-13")
    prepared(folder, "a.dlc", "b.dlc", "--hta_partitions", "14-14")  # as xdlc-info shows the layer
    a, b = (xdlc.load(folder / name) for name in ("a.dlc", "b.dlc"))
    assert list(b.records) == ["aip.metadata0"]
    assert differences(a, b, origin=False) == []


def test_what_is_written_is_the_same_each_time(folder: Path) -> None:
    for name in ("a.dlc", "b.dlc"):
        prepared(folder, "whole.dlc", name)
    assert (folder / "a.dlc").read_bytes() == (folder / "b.dlc").read_bytes()


def test_caches_and_format_3_do_not_go_together(folder: Path) -> None:
    words = [
        "--input_dlc",
        folder / "whole.dlc",
        "--enable_htp",
        "--htp_socs",
        "sm8550",
        "--dlc_version",
        "3",
    ]
    said = invoke(quantize, *words, code=2)
    assert "--enable_htp makes caches, which format 3 has no place for" in said.stderr
