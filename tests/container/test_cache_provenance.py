import json
from pathlib import Path
from typing import Any

import pytest

from tests.container.test_caches import BINARY, entry
from xdlc.container import cache_provenance, load, metadata, save
from xdlc.container.cache_provenance import CacheFacts, GraphFacts
from xdlc.container.caches import add_cache, remove_caches
from xdlc.errors import ContainerError
from xdlc.ir import Model, raw_data

PRINT = "0123456789abcdef" * 2
WHOLE = GraphFacts(PRINT, "g")
PART = GraphFacts(PRINT, "g", ("conv", "relu"))
FACTS = CacheFacts({"g": WHOLE, "g.0": PART}, 8, 2, None, False, "0.1.0")


def test_facts_survive_the_file(tmp_path: Path) -> None:
    model = Model()
    names = [add_cache(model, soc, BINARY, entry(soc)) for soc in ("sm8650", "sm8550")]
    facts = dict.fromkeys(names, FACTS)
    cache_provenance.write(model, facts)
    save(model, tmp_path / "m.dlc")
    assert cache_provenance.read(load(tmp_path / "m.dlc")) == facts


def test_a_model_without_the_record_has_no_facts() -> None:
    model = Model()
    assert cache_provenance.read(model) == {}
    cache_provenance.write(model, {})
    assert model.records == {}


def test_facts_go_with_their_caches() -> None:
    model = Model()
    names = [add_cache(model, soc, BINARY, entry(soc)) for soc in ("sm8650", "sm8550")]
    cache_provenance.write(model, dict.fromkeys(names, FACTS))
    remove_caches(model, "sm8650")
    assert cache_provenance.read(model) == {"htp.cache.sm8550.0": FACTS}
    remove_caches(model)
    assert model.records == {}


def _damaged(change: Any) -> bytes:
    words = {
        "version": 1,
        "caches": {
            "c": {
                "xdlc": "0.1.0",
                "vtcm_mb": 8,
                "optimization_level": 2,
                "num_hvx_threads": None,
                "dlbc": False,
                "graphs": {"g": {"fingerprint": PRINT, "source": "g", "ops": None}},
            }
        },
    }
    change(words, words["caches"]["c"], words["caches"]["c"]["graphs"]["g"])  # type: ignore[index]
    return json.dumps(words).encode()


VERIFIED = {"soc": "sm8650", "build": "v2", "inputs": "seeded", "share": 1.0, "outputs": {}}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda words, cache, graph: words.update(version=2), "version"),
        (lambda words, cache, graph: words.update(caches=[]), "caches"),
        (lambda words, cache, graph: words["caches"].update(c=1), "caches.c"),
        (lambda words, cache, graph: cache.pop("graphs"), "caches.c"),
        (lambda words, cache, graph: cache.update(vtcm_mb=True), "caches.c.vtcm_mb"),
        (lambda words, cache, graph: cache.update(vtcm_mb=-1), "caches.c.vtcm_mb"),
        (lambda words, cache, graph: cache.update(dlbc=0), "caches.c.dlbc"),
        (lambda words, cache, graph: cache.update(verified=VERIFIED | {"share": 1.5}), "verified.share"),
        (lambda words, cache, graph: cache.update(verified=VERIFIED | {"judged": -1}), "verified.judged"),
        (lambda words, cache, graph: cache.update(verified=VERIFIED | {"judged": []}), "verified.judged"),
        (lambda words, cache, graph: graph.update(fingerprint="x" * 32), "graphs.g.fingerprint"),
        (lambda words, cache, graph: graph.update(source=None), "graphs.g"),
        (lambda words, cache, graph: graph.update(ops="conv"), "graphs.g.ops"),
        (lambda words, cache, graph: graph.update(ops=[1]), "graphs.g.ops[0]"),
    ],
)
def test_damage_is_named(change: Any, place: str) -> None:
    with pytest.raises(ContainerError) as caught:
        cache_provenance.read(Model(records={cache_provenance.RECORD: raw_data(_damaged(change))}))
    assert caught.value.where is not None
    assert caught.value.where.endswith(place)
    assert caught.value.fix is not None
    assert "overwrite" in caught.value.fix


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"version": 1}'])
def test_what_is_no_such_json_is_refused(text: bytes) -> None:
    with pytest.raises(ContainerError):
        cache_provenance.read(Model(records={cache_provenance.RECORD: raw_data(text)}))


def test_a_record_beyond_all_measure_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "MAX_TEXT", 8)
    with pytest.raises(ContainerError, match=r"has 9 bytes; .* at most 8"):
        cache_provenance.read(Model(records={cache_provenance.RECORD: raw_data(b"123456789")}))


def test_damaged_facts_can_be_dropped_and_go_with_all_caches() -> None:
    model = Model(records={cache_provenance.RECORD: raw_data(b"{")})
    name = add_cache(model, "sm8650", BINARY, entry("sm8650"))
    add_cache(model, "sm8550", BINARY, entry("sm8550"))
    with pytest.raises(ContainerError, match="is not readable JSON"):
        remove_caches(model, "sm8550")
    assert cache_provenance.drop_damaged(model)
    assert not cache_provenance.drop_damaged(model)
    cache_provenance.write(model, {name: FACTS})
    assert not cache_provenance.drop_damaged(model)
    assert cache_provenance.read(model) == {name: FACTS}
    model.records[cache_provenance.RECORD] = raw_data(b"{")
    remove_caches(model)
    assert model.records == {}
