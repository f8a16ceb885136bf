from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import xdlc.api
from tests.runtime.htp.test_borders import MODELS, NAMES, feeds_of
from tests.support.htp_models import cnn, needs_htp, partly, prepared_cnn, refused
from tests.support.running import run_htp
from xdlc.container import cache_provenance
from xdlc.errors import BackendError, ConstraintError, XdlcError
from xdlc.ir import Model, raw_data
from xdlc.prepare.htp import prepare, prepare_all
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.htp import library
from xdlc.runtime.htp.process import WorkerSession
from xdlc.runtime.htp.session import HtpSession

pytestmark = needs_htp
X = [np.random.default_rng(seed).uniform(-1, 1, (1, 8, 8, 4)).astype("float32") for seed in range(2)]


def renamed() -> Model:
    model = cnn(quantized=True)
    graph = model.main
    graph.name = "other"
    return Model({"other": graph})


@pytest.fixture(scope="module", params=[True, False], ids=["quantized", "float"])
def prepared(request: pytest.FixtureRequest) -> Model:
    return prepared_cnn("sm8550", "sm8650", quantized=request.param)


def forget_hashes(model: Model) -> None:
    """Store facts of caches as versions without a hash of their bytes do."""
    facts = cache_provenance.read(model)
    cache_provenance.write(model, {name: replace(fact, content=None) for name, fact in facts.items()})


def test_a_cache_gives_what_the_composed_graph_gives_bit_for_bit(prepared: Model) -> None:
    notices: list[str] = []
    with (
        HtpSession(prepared, "sm8650", notify=notices.append) as session,
        WorkerSession.of_model(prepared, "sm8650") as composed,
    ):
        assert (session.soc, session.record, notices) == ("sm8650", "htp.cache.sm8650.0", [])
        for native in (False, True):
            for x in X:
                given = session.run({"x": x}, native=native)
                wanted = composed.run({"x": x}, native=native)
                assert given.keys() == wanted.keys()
                assert given["y"].dtype == wanted["y"].dtype
                assert np.array_equal(given["y"], wanted["y"])


def test_other_outputs_are_compiled_with_a_reason(prepared: Model) -> None:
    notices: list[str] = []
    with HtpSession(prepared, "sm8650", outputs=["pool"], notify=notices.append) as session:
        assert session.record is None
        assert notices == [
            "xdlc uses no cache on sm8650: htp.cache.sm8550.0: outputs: found 'y', accepted 'pool', 'y'",
            "xdlc uses no cache on sm8650: htp.cache.sm8650.0: outputs: found 'y', accepted 'pool', 'y'",
            "xdlc compiles model for sm8650 now",
        ]
        results = session.run({"x": X[0]})
    expected = CpuSession(prepared, outputs=["pool"]).run({"x": X[0]})
    assert results.keys() == {"y", "pool"}
    step = 0.03 if prepared.main.tensors["pool"].encoding else 5e-3
    assert np.abs(results["pool"] - expected["pool"]).max() <= step
    assert results["pool"].any()


def test_a_caller_can_insist_on_a_cache(prepared: Model) -> None:
    with pytest.raises(ConstraintError, match=r"no cache is usable on sm8450: htp\.cache\.sm8550\.0: arch"):
        HtpSession(prepared, "sm8450", validate=True)
    with HtpSession(prepared, validate=True) as session:
        assert session.record == "htp.cache.sm8550.0"


def test_caches_that_the_library_does_not_take_are_told() -> None:
    model = prepared_cnn("sm8550", "sm8650")
    expected = run_htp(model, {"x": X[0]}, soc="sm8650")["y"]
    for soc, is_last in (("sm8650", False), ("sm8550", True)):
        name = f"htp.cache.{soc}.0"
        held = model.records[name].numpy().copy()
        held[4096:] = 0
        model.records[name] = raw_data(held.tobytes())
        forget_hashes(model)
        notices: list[str] = []
        with HtpSession(model, "sm8650", notify=notices.append) as session:
            assert np.array_equal(session.run({"x": X[0]})["y"], expected)
        if is_last:
            assert session.record is None
            records = [text.split(": ")[1] for text in notices[:2]]
            assert records == ["htp.cache.sm8650.0", "htp.cache.sm8550.0"]
            assert notices[2] == "xdlc compiles model for sm8650 now"
        else:
            assert session.record == "htp.cache.sm8550.0"
            assert "htp.cache.sm8650.0" in notices[0]
        assert "loading the cache failed" in notices[0]
    with pytest.raises(ConstraintError, match=r"no cache is usable on sm8650: htp\.cache\.sm8650\.0"):
        HtpSession(model, "sm8650", validate=True)


def test_records_that_were_swapped_are_not_run() -> None:
    model = prepared_cnn("sm8550", "sm8650")
    first, second = "htp.cache.sm8550.0", "htp.cache.sm8650.0"
    model.records[first], model.records[second] = model.records[second], model.records[first]
    forget_hashes(model)
    foreign = prepare(renamed(), ["sm8450"])
    model.metadata["cacheList"].append(
        model.metadata["cacheList"][0]
        | {"cacheName": "htp.cache.sm8450.0", "socModel": 36, "contextMetadata": {"dspArch": 69}}
    )
    model.records["htp.cache.sm8450.0"] = foreign.records["htp.cache.sm8450.0"]
    notices: list[str] = []
    with HtpSession(model, "sm8650", notify=notices.append) as session:
        assert session.record is None
    assert (
        f"{second}: the DLC states SoC id 57 for the cache, but the cache was compiled for 43" in notices[0]
    )
    assert f"{first}: the DLC states SoC id 43 for the cache, but the cache was compiled for 57" in notices[1]
    assert "htp.cache.sm8450.0: the cache has no graph 'cnn', only 'other'" in notices[2]


def test_what_could_not_be_judged_is_told(prepared: Model) -> None:
    model = prepared.clone()
    del model.records[cache_provenance.RECORD]
    notices: list[str] = []
    with HtpSession(model, "sm8650", notify=notices.append) as session:
        assert session.record == "htp.cache.sm8650.0"
        assert "graph's hash is unknown" in notices[0]


@pytest.mark.parametrize("make", MODELS, ids=NAMES)
def test_ports_of_a_cache_are_those_of_the_model(make: Any) -> None:
    model = make()
    feeds = feeds_of(model)
    wanted = run_htp(model, feeds)
    with HtpSession(prepare(model, ["sm8650"])) as session:
        assert session.record is not None
        given = session.run(feeds)
    for name, array in wanted.items():
        assert (given[name].shape, given[name].dtype) == (array.shape, array.dtype)
        np.testing.assert_array_equal(given[name], array)


@pytest.mark.parametrize("quantized", [True, False])
def test_parts_of_a_cache_run_with_the_rest_on_the_cpu(quantized: bool) -> None:
    model = prepare_all(partly(quantized=quantized), ["sm8650"], partition=True).model
    notices: list[str] = []
    with HtpSession(model, "sm8650", notify=notices.append) as session:
        assert (session.record, session.partitions, notices) == ("htp.cache.sm8650.0", 2, [])
        given = session.run({"x": X[0]})
    wanted = CpuSession(partly(quantized=quantized)).run({"x": X[0]})["c"]
    assert "c" in given
    assert np.abs(given["c"] - wanted).max() <= (2.01 * 6 / 255 if quantized else 2e-2)


def test_what_htp_refuses_runs_on_the_cpu_if_wanted() -> None:
    notices: list[str] = []
    model = partly(quantized=True)
    options = {"soc": "sm8650", "cpu_fallback": True, "notify": notices.append}
    with xdlc.api.runtime_with("htp", options).open(model, **options) as session:
        assert (session.record, session.partitions) == (None, 2)
        given = session.run({"x": X[0]})
    assert list(given) == ["c"]
    wanted = CpuSession(model).run({"x": X[0]})["c"]
    assert np.abs(given["c"] - wanted).max() <= 2.01 * 6 / 255
    assert "op 'softmax_s' (Softmax)" in notices[0]
    assert any("2 part" in text for text in notices[1:])


def test_where_nothing_is_left_for_htp_it_is_an_error() -> None:
    with pytest.raises(XdlcError):
        xdlc.run(refused(), {}, "htp", soc="sm8650", cpu_fallback=True)


def test_caches_that_share_weights_are_not_loaded_and_it_is_told() -> None:
    shared = prepare(cnn(quantized=True), ["sm8650"], share_weights=True)
    notices: list[str] = []
    with HtpSession(shared, "sm8650", notify=notices.append) as session:
        assert session.record is None
    assert notices == [
        "xdlc uses no cache on sm8650: htp.cache.sm8650.0: the emulation cannot load caches that share "
        "their weights",
        "xdlc compiles model for sm8650 now",
    ]


def test_a_library_that_the_sweep_has_not_judged_is_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "SWEPT_SDK", (2, 1))
    notices: list[str] = []
    prepare(cnn(quantized=True), ["sm8650"], notify=notices.append)
    with HtpSession(cnn(quantized=True), "sm8650", notify=notices.append):
        assert notices == [library.unswept()] * 2


def test_a_missing_library_is_one_error_and_no_verdict_on_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    model = prepared_cnn("sm8550", "sm8650")
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    notices: list[str] = []
    with pytest.raises(BackendError, match="onnxruntime-qnn, which is not installed"):
        HtpSession(model, "sm8550", notify=notices.append)
    assert notices == []
