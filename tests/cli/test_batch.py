"""``xdlc-batch``."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

from tests.support.onnx_models import residual
from xdlc.cli.main import main


def test_the_result_is_beside_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, recipe = tmp_path / "nets", tmp_path / "recipe.yaml"
    folder.mkdir()
    onnx.save(residual(), folder / "a.onnx")
    (folder / "b.onnx").write_bytes(b"")
    recipe.write_text("models: ['*.onnx']\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(main, ["batch", ".", str(recipe), "--json"])
    assert done.exit_code == 1
    assert [row["status"] for row in json.loads(done.stdout)["rows"]] == ["ok", "failed"]
    assert (tmp_path / "nets_dlc/default/a.dlc").is_file()
