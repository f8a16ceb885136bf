"""``xdlc-net-run --use_aip``: section by section."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import xdlc
from tests.support.commands import invoke as run_tool
from tests.support.section_models import feeds_of, residual, with_record
from xdlc.cli.tools import net_run
from xdlc.container.aip_record import Engine, Section
from xdlc.prepare import hta


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = residual()
    model.save(tmp_path / "whole.dlc")
    hta.prepare(model, "0-10,13-15").model.save(tmp_path / "parts.dlc")
    lines = []
    for number in range(2):
        feeds_of(model, number)["x"].tofile(tmp_path / f"{number}.raw")
        lines.append(str(tmp_path / f"{number}.raw"))
    (tmp_path / "list.txt").write_text("\n".join(lines))
    return tmp_path


def invoke(folder: Path, dlc: str, *words: object, code: int = 0) -> Result:
    given = ["--container", folder / dlc, "--input_list", folder / "list.txt", *words]
    return run_tool(net_run.main, *given, code=code)


def results(folder: Path) -> list[Any]:
    return [np.fromfile(folder / f"Result_{number}" / "t17.raw", "<f4") for number in range(2)]


def test_results_are_those_of_the_whole(folder: Path) -> None:
    invoke(folder, "whole.dlc", "--output_dir", folder / "whole")
    said = invoke(folder, "parts.dlc", "--use_aip", "--output_dir", folder / "parts")
    assert "runs: 4 sections, layers 0-10, 13-15 on HTA" in said.stdout
    assert said.stderr == ""
    np.testing.assert_array_equal(results(folder / "parts"), results(folder / "whole"))


def test_values_inside_of_sections_cannot_be_had(folder: Path) -> None:
    words = ["--use_aip", "--output_dir", folder / "out", "--set_output_tensors"]
    said = invoke(folder, "parts.dlc", *words, "t3,t12", code=2)
    assert "'t3' is inside a section" in said.stderr
    assert "fix: run the model without --use_aip" in said.stderr
    invoke(folder, "parts.dlc", *words, "t12")
    assert (folder / "out" / "Result_1" / "t12.raw").is_file()
    assert "has no tensor 't99'" in invoke(folder, "parts.dlc", *words, "t99", code=2).stderr


def test_what_does_not_go_with_it(folder: Path) -> None:
    words = ["--use_aip", "--output_dir", folder / "out"]
    invoke(folder, "parts.dlc", *words, "--runtime", "htp", code=2)
    said = invoke(folder, "whole.dlc", *words, code=6)
    assert f"{folder / 'whole.dlc'}: has no AIP record" in said.stderr
    assert "xdlc quantize net.dlc -l samples.txt --enable-hta" in said.stderr
    assert not (folder / "out").exists()


def test_the_vendors_sections_are_announced(folder: Path) -> None:
    model = xdlc.load(folder / "whole.dlc")
    with_record(model, [Section(Engine.HTA, 0, 17, (), b"code")]).save(folder / "vendor.dlc")
    said = invoke(folder, "vendor.dlc", "--use_aip", "--output_dir", folder / "out")
    assert said.stderr.startswith("notice: layers 0-17 have the vendor's")
    assert "runs: 1 section, no layers on HTA" in said.stdout
