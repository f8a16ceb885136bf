"""Caches of several graphs: verification of each, and common weights."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support.htp_models import cnn, needs_htp
from xdlc.container import cache_provenance
from xdlc.container.caches import caches
from xdlc.errors import UsageError
from xdlc.ir import Model
from xdlc.runtime.htp.process import HtpWorker
from xdlc.worker.process import ChildDiedError

NAMES = ("prompt", "token")


@pytest.fixture(scope="module")
def both() -> Model:
    return xdlc.link([cnn(quantized=True), cnn(quantized=True)], list(NAMES))


def prepared(model: Model, **options: Any) -> tuple[Model, list[str]]:
    notices: list[str] = []
    return xdlc.prepare(model, ["sm8650"], notify=notices.append, **options), notices


@pytest.fixture(scope="module")
def apart(both: Model) -> tuple[Model, list[str]]:
    return prepared(both)


@needs_htp
def test_each_graph_is_verified(both: Model, apart: tuple[Model, list[str]]) -> None:
    model, notices = apart
    (facts,) = cache_provenance.read(model).values()
    assert facts.verified is not None
    assert facts.verified.share == 1.0
    assert list(facts.verified.outputs) == ["y", "token: y"]
    assert not facts.verified.compiled
    assert not notices
    feeds = {"x": np.ones((1, 8, 8, 4), np.float32)}
    for name in NAMES:
        with xdlc.Session(model, "htp", graph=name) as session:
            assert session.graph.name == name
            assert session._engine.record == "htp.cache.sm8650.0"  # type: ignore[attr-defined]
            np.testing.assert_allclose(session.run(feeds)["y"], xdlc.run(both, feeds)["y"], atol=0.05)


@needs_htp
def test_graphs_share_weights_and_are_verified_where_they_are_compiled(
    both: Model, apart: tuple[Model, list[str]]
) -> None:
    model, notices = prepared(both, share_graph_weights=True)
    (facts,) = cache_provenance.read(model).values()
    assert facts.share_graph_weights
    assert facts.verified is not None
    assert facts.verified.compiled
    assert facts.verified.share == 1.0
    assert list(facts.verified.outputs) == ["y", "token: y"]
    assert not notices
    sizes = [
        cache.data.nbytes for each in (apart[0], model) for cache in caches(each) if cache.data is not None
    ]
    assert sizes[1] < sizes[0]
    heard: list[str] = []
    with xdlc.Session(model, "htp", notify=heard.append) as session:
        assert session._engine.record is None  # type: ignore[attr-defined]
    assert any("share their weights" in text for text in heard)
    kept, notices = prepared(model, share_graph_weights=True)
    assert any("xdlc keeps" in text for text in notices)
    assert cache_provenance.read(kept) == cache_provenance.read(model)


@pytest.mark.slow
@needs_htp
def test_a_graph_that_takes_too_long_leaves_a_right_cache(
    both: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, late = HtpWorker.query, iter([True])

    def query_late(worker: HtpWorker, request: dict[str, Any], *arguments: Any, **options: Any) -> Any:
        if request["do"] == "execute" and next(late, False):
            worker.end()
            raise ChildDiedError("took too long", "", is_late=True)
        return query(worker, request, *arguments, **options)

    monkeypatch.setattr(HtpWorker, "query", query_late)
    model, _ = prepared(both, share_graph_weights=True)
    (facts,) = cache_provenance.read(model).values()
    assert facts.verified is not None


@needs_htp
def test_a_record_without_further_graphs_is_no_proof(apart: tuple[Model, list[str]]) -> None:
    model = apart[0].clone()
    ((record, facts),) = cache_provenance.read(model).items()
    assert facts.verified is not None
    old = replace(facts.verified, outputs={"y": facts.verified.outputs["y"]})
    cache_provenance.write(model, {record: replace(facts, verified=old)})
    (anew,) = cache_provenance.read(prepared(model)[0]).values()
    assert anew.verified == facts.verified


@needs_htp
def test_one_graph_has_nothing_to_share() -> None:
    model, notices = prepared(cnn(quantized=True), share_graph_weights=True, verify=False)
    assert len(notices) == 1
    (facts,) = cache_provenance.read(model).values()
    assert not facts.share_graph_weights
    with pytest.raises(UsageError, match="exclude each other"):
        prepared(cnn(quantized=True), share_graph_weights=True, share_weights=True)
