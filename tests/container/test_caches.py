import struct

import pytest

from xdlc.container import load, save
from xdlc.container.caches import NEEDED, add_cache, caches, remove_caches
from xdlc.errors import ContainerError
from xdlc.ir import Model, raw_data

BINARY = struct.pack("<4s4sI4sQQQ", bytes(4), bytes(4), 0, bytes(4), 8, 64, 36) + bytes(60)
IDS = {"sm8550": 43, "sm8650": 57}
ENTRY = dict.fromkeys(NEEDED, 1) | {"socModel": 43}


def entry(soc: str) -> dict[str, int]:
    return ENTRY | {"socModel": IDS[soc.lower()]}


def test_records_and_list_stay_together(tmp_path):
    model = Model()
    assert add_cache(model, "SM8650", BINARY, entry("sm8650")) == "htp.cache.sm8650.0"
    assert add_cache(model, "SM8650", raw_data(BINARY), entry("sm8650")) == "htp.cache.sm8650.1"
    assert add_cache(model, "sm8550", BINARY, ENTRY) == "htp.cache.sm8550.0"
    save(model, tmp_path / "m.dlc")
    model = load(tmp_path / "m.dlc")
    assert [(cache.name, cache.soc, cache.problem) for cache in caches(model)] == [
        ("htp.cache.sm8650.0", "sm8650", None),
        ("htp.cache.sm8650.1", "sm8650", None),
        ("htp.cache.sm8550.0", "sm8550", None),
    ]
    assert remove_caches(model, "SM8650") == ["htp.cache.sm8650.0", "htp.cache.sm8650.1"]
    assert [entry["cacheName"] for entry in model.metadata["cacheList"]] == ["htp.cache.sm8550.0"]
    assert remove_caches(model) == ["htp.cache.sm8550.0"]
    assert (model.records, model.metadata.get("cacheList")) == ({}, None)
    assert remove_caches(model) == []


def test_time_is_added():
    model = Model()
    add_cache(model, "sm8550", BINARY, {key: ENTRY[key] for key in NEEDED if key != "timestamp"})
    assert model.metadata["cacheList"][0]["timestamp"] == "1980-01-01 00:00:00 UTC"


@pytest.mark.parametrize(
    ("soc", "binary", "entry", "problem"),
    [
        ("sm8550", BINARY[:-1], ENTRY, "has 99 bytes, but its header needs 100"),
        ("sm8550", b"", ENTRY, "less than its header"),
        ("sm8550", BINARY, {"header": 1}, "is listed without version"),
        ("a.b", BINARY, ENTRY, "has a name that is not a SoC"),
        ("sm8650", BINARY, ENTRY, "named after sm8650, which has the id 57, but was compiled for the id 43"),
    ],
)
def test_what_would_hide_other_caches_is_refused(soc, binary, entry, problem):
    model = Model()
    with pytest.raises(ContainerError, match=problem):
        add_cache(model, soc, binary, entry)
    assert (model.records, model.metadata) == ({}, {})


def test_one_side_missing_is_told():
    model = Model()
    add_cache(model, "sm8550", BINARY, entry("sm8550"))
    add_cache(model, "sm8650", BINARY, entry("sm8650"))
    del model.records["htp.cache.sm8550.0"]
    model.metadata["cacheList"].pop()
    assert [cache.problem for cache in caches(model)] == [
        "has a record but is not listed",
        "is listed but has no record",
    ]


def test_swapped_records_are_told():
    model = Model()
    for soc in IDS:
        add_cache(model, soc, BINARY, entry(soc))
    first, second = model.metadata["cacheList"]
    first["cacheName"], second["cacheName"] = second["cacheName"], first["cacheName"]
    assert [cache.problem for cache in caches(model)] == [
        "is named after sm8550, which has the id 43, but was compiled for the id 57",
        "is named after sm8650, which has the id 57, but was compiled for the id 43",
    ]


def test_a_soc_that_is_not_known_is_not_judged():
    model = Model()
    add_cache(model, "sm9999", BINARY, ENTRY)
    assert [cache.problem for cache in caches(model)] == [None]


def test_shared_weights_go_with_the_last_cache():
    model = Model()
    for soc in ("sm8550", "sm8650"):
        add_cache(model, soc, BINARY, entry(soc))
    model.records["htp.shared.weights.h"] = raw_data(b"1")
    model.records["htp.metadata.h"] = raw_data(b"1")
    model.metadata["relations"] = [
        {"parentRecordName": parent, "childRecordNames": ["htp.shared.weights.h"]}
        for parent in ("htp.metadata.h", "htp.cache.sm8550.0", "htp.cache.sm8650.0")
    ]
    assert remove_caches(model, "sm8550") == ["htp.cache.sm8550.0"]
    assert len(model.metadata["relations"]) == 2
    assert sorted(remove_caches(model, "sm8650")) == [
        "htp.cache.sm8650.0",
        "htp.metadata.h",
        "htp.shared.weights.h",
    ]
    assert (model.records, model.metadata) == ({}, {})


SHARED = {
    "htp.shared.weights.<h>": raw_data(b"weights"),
    "htp.metadata.shared_weights.<h>_metadata": raw_data(b"about"),
}


def test_equal_weights_are_stored_once():
    model = Model()
    for soc in ("sm8550", "sm8650"):
        add_cache(model, soc, BINARY, entry(soc), SHARED)
    assert sorted(model.records) == ["htp.cache.sm8550.0", "htp.cache.sm8650.0", *sorted(SHARED)]
    found = {item["parentRecordName"]: item["childRecordNames"] for item in model.metadata["relations"]}
    weights = ["htp.shared.weights.<h>"]
    assert found == {
        "htp.cache.sm8550.0": weights,
        "htp.cache.sm8650.0": weights,
        "htp.metadata.shared_weights.<h>_metadata": weights,
    }
    assert remove_caches(model, "sm8550") == ["htp.cache.sm8550.0"]
    assert set(SHARED) < set(model.records)
    remove_caches(model)
    assert (model.records, model.metadata) == ({}, {})


@pytest.mark.parametrize(
    ("shared", "said"),
    [
        (SHARED | {"htp.shared.weights.<h>": raw_data(b"other!!")}, "the model already has this record"),
        (SHARED | {"htp.shared.weights.<h>": raw_data(b"other")}, "the model already has this record"),
        (
            SHARED | {"htp.metadata.shared_weights.<g>_metadata": raw_data(b"")},
            "describes weights that the file",
        ),
    ],
)
def test_other_weights_of_the_same_name_are_refused(shared, said):
    model = Model()
    add_cache(model, "sm8550", BINARY, entry("sm8550"), SHARED)
    before = dict(model.records)
    with pytest.raises(ContainerError, match=said):
        add_cache(model, "sm8650", BINARY, entry("sm8650"), shared)
    assert model.records == before
