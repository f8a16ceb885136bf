"""``xdlc.batch``: recipes, tables, and batches that go on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import xdlc
from tests.support.onnx_models import RNG, build, floats, node
from xdlc.api.batches import unit as units
from xdlc.errors import ModelError, StorageError, UsageError, XdlcError

QUANTIZED = """
quantize: {samples: "{model}.npz"}
variants:
  float: {quantize: null}
  w8a16: {quantize: {act_bitwidth: 16}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with three networks, one of them damaged."""
    place = tmp_path / "models"
    (place / "sub").mkdir(parents=True)
    for number, name in enumerate(("a", "sub/b")):
        weights = {"w": floats(4 + number, 3)}
        model = build(
            [node("MatMul", "x wt"), node("Transpose", "w", "wt")][::-1],
            {"x": floats(2, 3)},
            weights,
            ["y"],
            17,
        )
        onnx.save(model, place / f"{name}.onnx")
        np.savez(place / f"{name}.npz", x=RNG.standard_normal((5, 2, 3)).astype(np.float32))
    (place / "c.onnx").write_bytes((place / "a.onnx").read_bytes()[:-9])
    return place


def recipe(folder: Path, text: str) -> Path:
    path = folder.parent / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".jsonl")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_table_has_a_row_for_each_model_and_variant(folder: Path, tmp_path: Path) -> None:
    batch = xdlc.batch(folder, recipe(folder, QUANTIZED), tmp_path / "out")
    assert [(row.model, row.variant, row.status) for row in batch.rows] == [
        ("a.onnx", "float", "ok"),
        ("a.onnx", "w8a16", "ok"),
        ("c.onnx", "float", "failed"),
        ("c.onnx", "w8a16", "failed"),
        ("sub/b.onnx", "float", "ok"),
        ("sub/b.onnx", "w8a16", "ok"),
    ]
    assert (batch.rows[1].sqnr or 0) > 40
    assert batch.rows[2].problem.startswith("XD300: c.onnx:")
    table = json.loads((tmp_path / "out/table.json").read_text())
    assert [row["dlc_bytes"] for row in table["rows"]] == [row.dlc_bytes for row in batch.rows]
    assert len((tmp_path / "out/table.csv").read_text().splitlines()) == 7
    path = tmp_path / "direct.dlc"
    sample = folder / "sub/b.npz"
    xdlc.save(xdlc.quantize(xdlc.convert(folder / "sub/b.onnx"), sample, act_bitwidth=16), path)
    assert path.read_bytes() == (tmp_path / "out/w8a16/sub/b.dlc").read_bytes()


def test_workers_and_interruptions_change_nothing(folder: Path, tmp_path: Path) -> None:
    path = recipe(folder, QUANTIZED)
    xdlc.batch(folder, path, tmp_path / "one")

    def interrupt(title: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        xdlc.batch(folder, path, tmp_path / "two", step=interrupt)
    with open(tmp_path / "two/batch.jsonl", "a") as journal:
        journal.write('{"key": "torn')
    resumed = xdlc.batch(folder, path, tmp_path / "two", jobs=2)
    assert resumed.kept == 2  # the third failed
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_only_what_changed_is_made_again(folder: Path, tmp_path: Path) -> None:
    path, output = recipe(folder, QUANTIZED), tmp_path / "out"
    (folder / "c.onnx").unlink()

    def titles_made() -> list[str]:
        titles: list[str] = []
        xdlc.batch(folder, path, output, step=lambda title, done, total: titles.append(title))
        return titles

    assert len(titles_made()) == 4
    assert titles_made() == []
    (output / "float/a.dlc").unlink()
    assert titles_made() == ["making a.onnx (float)"]
    recipe(folder, QUANTIZED.replace("16", "8"))
    assert titles_made() == ["making a.onnx (w8a8)", "making sub/b.onnx (w8a8)"]
    np.savez(folder / "a.npz", x=np.ones((6, 2, 3), np.float32))
    assert titles_made() == ["making a.onnx (float)", "making a.onnx (w8a8)"]


def test_a_batch_does_not_keep_a_dlc_of_other_options_or_files(folder: Path, tmp_path: Path) -> None:
    (folder / "c.onnx").unlink()
    output, ports = tmp_path / "out", tmp_path / "io.yaml"
    dlcs = [output / "default" / name for name in ("a.dlc", "sub/b.dlc")]
    first, second = "convert: {input_dims: {x: [4, 3]}}\n", "convert: {input_dims: {x: [5, 3]}}\n"

    def batched(text: str, step: Any = None) -> int:
        return xdlc.batch(folder, recipe(folder, text), output, step=step).kept

    batched(first)
    contents_first = [path.read_bytes() for path in dlcs]
    batched(second)
    for path, content in zip(dlcs, contents_first, strict=True):
        path.write_bytes(path.read_bytes()[: len(content)].ljust(len(content), b" "))
    assert batched(first) == 0
    assert [path.read_bytes() for path in dlcs] == contents_first

    def touch(title: str, done: int, total: int) -> None:
        if done:  # the first model, which is converted by now
            os.utime(folder / "a.onnx")

    assert batched(second, touch) == 0
    assert batched(second) == 1
    ports.write_text("- IOName: x\n  Datatype: float32\n", encoding="utf-8")
    named = f"convert: {{custom_io: {ports}}}\n"
    assert (batched(named), batched(named)) == (0, 2)
    os.utime(ports, (1, 1))
    assert batched(named) == 0


def test_results_in_the_folder_are_no_models(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = recipe(folder, "cost: false\n")
    for kept in (0, 2):  # of three, one is damaged
        batch = xdlc.batch("models", path, folder / "out")
        assert (len(batch.rows), batch.kept) == (3, kept)


def test_a_worker_without_the_folders_gets_and_returns_contents(folder: Path, tmp_path: Path) -> None:
    xdlc.batch(folder, recipe(folder, QUANTIZED), tmp_path / "out")
    source = xdlc.api.batches.recipe.read_recipe(tmp_path / "recipe.yaml")
    for variant in source.variants:
        unit = units.Unit(folder, "sub/b.onnx", variant, tmp_path / "none/b.dlc")
        files = unit.files()
        copies = [tmp_path / f"{number}" for number in range(len(files))]
        for file, copy in zip(files, copies, strict=True):
            copy.write_bytes(file.read_bytes())
        names = [str(file.relative_to(folder)) for file in files]
        rows, content = units.make(unit, names, tmp_path / "0", tmp_path / "mark", *copies)
        assert content == (tmp_path / "out" / variant.name / "sub/b.dlc").read_bytes()
        assert [row.status for row in rows] == ["ok"]


def test_models_of_one_stem_have_their_own_dlcs(folder: Path, tmp_path: Path) -> None:
    xdlc.save(xdlc.convert(folder / "a.onnx"), folder / "a.dlc")
    text = "models: ['a.*x', 'a.dlc']\n"
    batch = xdlc.batch(folder, recipe(folder, text), tmp_path / "out")
    assert not batch.failures
    assert set(contents(tmp_path / "out")) == {
        "default/a.onnx.dlc",
        "default/a.dlc.dlc",
        "table.csv",
        "table.json",
    }


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("models: [", ModelError),
        ("a: &x 1\nb: *x\n", ModelError),
        ("quantise: {}\n", UsageError),
        ("quantize: {act_bits: 16}\n", UsageError),
        ("quantize: {act_bitwidth: sixteen}\n", UsageError),
        ("quantize: {act_bitwidth: 7}\n", UsageError),
        ("quantize: {jobs: 7}\n", UsageError),
        ("variants: {../up: {}}\n", UsageError),
        ("variants: [a]\n", UsageError),
        ("cost: 1\n", UsageError),
        ("models: ['*.none']\n", UsageError),
        ("models: ['../*.onnx']\n", UsageError),
        ("models: ['/models/*.onnx']\n", UsageError),
        ("models: ['.']\n", UsageError),
        ("prepare: {socs: 3}\n", UsageError),
        ("prepare: {socs: [sm865O]}\n", UsageError),
        ("quantize: {samples: [a]}\n", UsageError),
        ("convert: 3\n", UsageError),
        ("- a\n", UsageError),
    ],
)
def test_wrong_recipes_are_refused(folder: Path, tmp_path: Path, text: str, kind: type[XdlcError]) -> None:
    with pytest.raises(kind) as caught:
        xdlc.batch(folder, recipe(folder, text), tmp_path / "out")
    assert caught.value.fix or getattr(caught.value, "problems", ())
    assert not (tmp_path / "out").exists()


def test_a_missing_recipe_is_an_error(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        xdlc.batch(folder, tmp_path / "none.yaml", tmp_path / "out")
