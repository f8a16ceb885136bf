"""Differences of records, formats and damaged content."""

import subprocess
import sys

import numpy as np
import onnx
import pytest

import xdlc
from tests.support import graph_mutations, record_mutations
from tests.support import rich_model as rich
from tests.support.cache_models import put_cache
from tests.support.onnx_models import residual
from xdlc.container.aip_record import OWN_RECORD
from xdlc.container.cache_provenance import RECORD
from xdlc.diff import KINDS, diff, kinds_of
from xdlc.diff.change import changes_of
from xdlc.errors import UsageError
from xdlc.ir import Model, raw_data

BLOCKED = ["subprocess", "multiprocessing", "fcntl", "onnxruntime", "onnx"]


def kinds(before: Model, after: Model) -> list[str]:
    return [change.kind for change in diff(before, after).items]


def test_formats_of_one_model_differ_only_in_the_format(tmp_path) -> None:
    model = rich.rich_model()
    model.files = {}
    for version in ("4.0", "4.1"):
        model.save(tmp_path / f"{version}.dlc", version=version)
    result = xdlc.diff(tmp_path / "4.0.dlc", tmp_path / "4.1.dlc")
    assert [change.kind for change in result.items] == ["format"]
    assert result.counts["changed"] == 0


def test_models_with_caches_alone() -> None:
    before, after = rich.rich_model(), rich.rich_model()
    before.graphs, after.graphs = {}, {}
    assert diff(before, after).is_equal
    record_mutations.vtcm(after)
    assert kinds(before, after) == ["caches"]


def test_a_cache_of_one_model_is_one_change() -> None:
    after = rich.rich_model()
    put_cache(after, "sm8750", noted=False)
    assert kinds(rich.rich_model(), after) == ["caches"]


def test_a_cache_without_a_description() -> None:
    after = rich.rich_model()
    after.metadata["cacheList"] = [
        entry for entry in after.metadata["cacheList"] if entry["cacheName"] != rich.CACHE
    ]
    assert kinds(rich.rich_model(), after) == ["caches"]


@pytest.mark.parametrize("record", [RECORD, OWN_RECORD, "xdlc.udo.Pkg"])
def test_damaged_records_are_compared_by_their_bytes(record: str) -> None:
    models = [rich.rich_model() for _ in range(2)]
    for model in models:
        model.records[record] = raw_data(b"damaged")
    assert diff(*models).is_equal
    assert diff(rich.rich_model(), models[0]).items


def test_costs_follow_from_other_differences() -> None:
    after = rich.rich_model()
    graph_mutations.input_added(after)
    result = diff(rich.rich_model(), after, ignore=["io"])
    assert result.is_equal
    assert [change.kind for change in result.costs] == ["cost", "cost"]
    assert len(list(result.lines())) == 1


def test_only_the_history_and_the_properties_have_texts_of_their_own_kinds() -> None:
    models = [rich.rich_model() for _ in range(2)]
    for number, model in enumerate(models):
        model.metadata["layouts"]["copyright"] = f"N{number}"
        model.metadata["note"]["timestamp"] = number
        model.metadata["properties"]["model-copyright"] = str(number)
    assert sorted(kinds(*models)) == ["copyright", "layouts", "other-metadata"]
    assert diff(*models, ignore=["copyright", "timestamps"]).items


def test_kinds_and_groups() -> None:
    assert kinds_of(["names"]) == {"op-names", "tensor-names", "graph-names"}
    assert kinds_of(KINDS) == set(KINDS)
    with pytest.raises(UsageError, match="no kind") as error:
        kinds_of(["shape"])
    assert "shapes" in str(error.value.fix)


def test_values_are_compared_by_name_and_place() -> None:
    before = {"a": [{"name": "x", "v": 1}, {"name": "y", "v": 2}], "b": [1, 2], "c": float("nan"), "d": None}
    after = {"a": [{"name": "y", "v": 3}, {"name": "x", "v": 1}], "b": [1], "c": float("nan"), "e": "new"}
    assert list(changes_of((before, after))) == [
        ("a.y.v", [2, 3]),
        ("order of a", ["x, y", "y, x"]),
        ("b", ["[1, 2]", "[1]"]),
        ("e", [None, "new"]),
    ]
    deep: list = []
    for _ in range(500):
        deep = [deep]
    assert list(changes_of(([deep], [[deep]])))


def test_a_flag_is_not_a_number_and_nan_equals_itself() -> None:
    before = {"a": 1, "b": [1, 0.5], "c": [float("nan"), 1], "d": 1}
    after = {"a": True, "b": [True, 0.5], "c": [float("nan"), 1], "d": 1.0}
    assert [place for place, _ in changes_of((before, after))] == ["a", "b"]


@pytest.mark.parametrize("key", ["tensors", "weight_factors"])
def test_notes_of_a_whole_graph_are_one_change_of_the_graph(key: str) -> None:
    after = rich.rich_model()
    del after.metadata[key]["main"]
    for models in ((rich.rich_model(), after), (after, rich.rich_model())):
        (change,) = diff(*models).items
        assert "graph 'main'" in change.what


def test_a_diff_needs_no_processes_and_no_onnx(tmp_path) -> None:
    model = rich.rich_model()
    model.files = {}
    model.save(tmp_path / "a.dlc")
    program = f"""
import sys
for name in {BLOCKED}:
    assert name not in sys.modules, name
    sys.modules[name] = None
from xdlc.container import load
from xdlc.diff import diff
assert diff(*(load({str(tmp_path / "a.dlc")!r}) for _ in range(2))).is_equal
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_page_has_both_sides(tmp_path) -> None:
    models = [rich.rich_model() for _ in range(2)]
    graph_mutations.op_added(models[1])
    graph_mutations.scale(models[1])
    content = diff(*models).for_page()
    states = [row[4] for row in content["ops"]]
    assert (states.count("only_b"), states.count("changed")) == (1, 1)
    (single,) = (row for row in content["ops"] if row[4] == "only_b")
    assert single[:4] == [0, None, 0, len(models[1].main) - 1]
    assert {key for row in content["ops"] for change in row[5] for key in change} == {
        "kind",
        "what",
        "before",
        "after",
        "note",
    }
    assert np.isfinite([change["after"] for change in content["items"]]).all()


def test_the_text_of_equal_models_names_what_is_compared() -> None:
    model = rich.rich_model()
    texts = {
        frozenset(kinds): diff(model, model, ignore=kinds)
        .summary[0]
        .removeprefix("before and after are equal")
        for kinds in ((), ("metadata",), ("weights", "cost"), KINDS.keys() - {"caches"})
    }
    assert set(texts.values()) == {"", ", without metadata", ", without weights, cost", " in caches"}


def test_kinds_that_no_source_model_has_are_not_equal(tmp_path) -> None:
    source = tmp_path / "net.onnx"
    onnx.save(residual(), source)
    dlc = xdlc.convert(source)
    with pytest.raises(UsageError):
        xdlc.diff(source, dlc, only=["metadata", "files"])
    result = xdlc.diff(source, dlc, only=["metadata", "ops"])
    assert result.is_equal
    assert result.summary[0].endswith("are equal in ops")
    assert xdlc.diff(source, dlc).summary[0].endswith("are equal")
