"""Layers of Caffe and operators of Caffe2 on recorded nets of one each."""

from __future__ import annotations

import csv
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from xdlc.errors import XdlcError, each_problem

pytestmark = pytest.mark.corpus

PLACES = {
    "bad__text_binary": "byte 0",
    "bad__text_deep": "line 1, column 519",
    "bad__text_deep_closed": "line 2, column 263",
    "bad__text_garbage": "line 1, column 6",
    "bad__text_long_number": "line 2, column 103",
    "bad__init_lacks_blob": "'b'",
    "bad__no_input_dim": "'data'",
    "bad__swapped_nets": "init_net.pb",
    "bad__text_predict": "predict_net.pb",
}
"""What errors name where neither a layer with its line nor an operator is at fault."""
TAKEN = frozenset({"bad__device_ops_only"})
"""Nets that may be refused, and are converted: nothing is wrong with them."""


@pytest.fixture(scope="module")
def rows(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    archive = corpus / "caffe_ops_dev.tar.xz"
    if not archive.is_file():
        pytest.skip(f"needs {archive.name} in the corpus")
    folder = tmp_path_factory.mktemp("set")
    with tarfile.open(archive) as held:
        held.extractall(folder, filter="data")
    (index,) = folder.rglob("index.csv")
    with index.open(newline="") as table:
        return [{**row, "folder": index.parent / row["name"]} for row in csv.DictReader(table)]


def convert(row: dict[str, Any]) -> xdlc.Model:
    net, *weights = (row["folder"] / name for name in row["files"].split())
    dims = {}
    for part in row["input_dims"].split():
        name, _, sizes = part.rpartition(":")
        dims[name] = [int(size) for size in sizes.split(",")]
    options: dict[str, Any] = {"weights": weights[0]} if weights else {}
    return xdlc.convert(net, input_dims=dims or None, notify=lambda _: None, **options)


def detections(array: np.ndarray) -> np.ndarray:
    """Return the rows of detections that have a score, in a fixed order."""
    found = array.reshape(-1, 7)
    found = found[found[:, 2] > 0]
    return found[np.lexsort((found[:, 3].round(3), -found[:, 2].round(4), found[:, 1], found[:, 0]))]


def differences(row: dict[str, Any], target: Path) -> Iterator[str]:
    """Iterate over the faults in the outputs of a net that is converted and run."""
    with np.load(row["folder"] / "ref.npz") as held:
        arrays = {key: held[key] for key in held.files}
    xdlc.save(convert(row), target)
    results = xdlc.run(target, {key[4:]: array for key, array in arrays.items() if key.startswith("in::")})
    for key, array in arrays.items():
        if not key.startswith("out::"):
            continue
        name = key[5:].replace("|", "/")
        have, want = np.asarray(results[name], np.float64), np.asarray(array, np.float64)
        if row["compare"] == "rows":
            have, want = detections(have), detections(want)
        elif row["compare"] == "prefix":  # the others are padding
            have = have.reshape(-1, want.shape[-1])[: len(want)]
        if have.shape != want.shape and not have.size == want.size == 1:  # DLCs hold no rank 0
            yield f"{name}: shape {have.shape} for {want.shape}"
        elif want.size:
            error = np.abs(have.reshape(-1) - want.reshape(-1)) / np.maximum(1, np.abs(want.reshape(-1)))
            if not error.max() <= float(row["tolerance"]):
                yield f"{name}: an error of {error.max():.2g}"


@pytest.mark.parametrize("framework", ["caffe", "caffe2"])
def test_each_computes_what_was_recorded(rows: list[dict[str, Any]], tmp_path: Path, framework: str) -> None:
    wrong = {}
    for row in rows:
        if row["framework"] == framework and row["expect"] == "result":
            try:
                found = list(differences(row, tmp_path / "net.dlc"))
            except XdlcError as error:
                found = [str(error)]
            if found:
                wrong[row["name"]] = found
    assert not wrong


def test_bad_nets_are_refused_with_their_place(rows: list[dict[str, Any]]) -> None:
    wrong = {}
    for row in rows:
        name = row["name"].rpartition("/")[2]
        if not name.startswith("bad__"):
            continue
        place = PLACES.get(name) or ("line " if row["framework"] == "caffe" else "operator '")
        try:
            convert(row)
        except XdlcError as error:
            wrong[name] = [
                str(each)
                for each in each_problem(error)
                if place not in f"{each.where}: {each.problem} {each.fix}" or not each.fix
            ]
        else:
            wrong[name] = [] if name in TAKEN else ["is converted"]
    assert not {name: found for name, found in wrong.items() if found}
