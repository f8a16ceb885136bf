import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.cache_models import described, put_cache
from tests.support.htp_models import cnn
from xdlc.container import cache_provenance
from xdlc.container.cache_provenance import CacheFacts, GraphFacts
from xdlc.errors import ConstraintError, UsageError
from xdlc.ir import Model, raw_data, static
from xdlc.ir.fingerprint import fingerprint
from xdlc.ir.partitions import leaving, partition_of
from xdlc.options.running import CACHE_MODES
from xdlc.runtime.htp import library
from xdlc.runtime.htp.cache_validity import RULES
from xdlc.runtime.htp.cache_verdict import Verdict, table, verdicts
from xdlc.targets import all_socs

SDK = "2.51"


def quantized() -> Model:
    return cnn(quantized=True)


def judged(model: Model, device: str, mode: str = "permissive", sdk: str = SDK, **asked: Any) -> Verdict:
    (verdict,) = verdicts(model, device, mode=mode, sdk=sdk, **asked)
    return verdict


def broken(verdict: Verdict) -> list[str]:
    return [finding.rule for finding in verdict.failed]


@pytest.mark.parametrize(
    ("made_for", "vtcm", "device", "permissive", "strict"),
    [
        ("sm8650", None, "sm8650", [], []),
        ("sm8450", 8, "sm7450", ["vtcm"], ["vtcm", "soc"]),
        ("sm8450", 4, "sm7450", ["vtcm"], ["vtcm", "soc"]),
        ("sm8450", 2, "sm7450", [], ["soc"]),
        ("sm7450", 2, "sm8450", [], ["vtcm", "soc"]),
        ("sm8450", None, "sm8550", [], ["arch", "soc"]),
        ("sm8550", None, "sm8450", ["arch"], ["arch", "soc"]),
        ("sm8450", 2, "sm8450", [], ["vtcm"]),
        ("sm8550", None, "qcs8550", [], ["soc"]),
        ("sm8650", None, "57", [], []),
        ("qcs6490", None, "qcm6490", [], []),
    ],
)
def test_devices_take_what_fits(
    made_for: str, vtcm: int | None, device: str, permissive: list[str], strict: list[str]
) -> None:
    model = quantized()
    put_cache(model, made_for, vtcm_mb=vtcm)
    assert broken(judged(model, device)) == permissive
    assert broken(judged(model, device, "strict")) == strict
    assert broken(judged(model, device, "always_generate_new")) == ["mode", *permissive]


def test_reasons_tell_values_found_and_accepted() -> None:
    model = quantized()
    put_cache(model, "sm8450")
    verdict = judged(model, "sm7450", "strict", sdk="2.40")
    assert not verdict.usable
    assert verdict.reason == (
        "vtcm: found 8 MB, accepted 2 MB, all the memory of sm7450; soc: found sm8450, accepted sm7450; "
        "sdk: found 2.51.0, accepted 2.40 or older"
    )
    assert "vtcm: found 8 MB, accepted 2 MB or less" in judged(model, "sm7450").reason
    put_cache(model, "sm8650")
    assert "arch: found v75, accepted v69 or lower" in verdicts(model, "sm8450", sdk=SDK)[1].reason


@pytest.mark.parametrize(
    ("build", "sdk", "usable", "unjudged"),
    [
        ("v2.51.0.260929181845", "2.51", True, False),
        ("v2.51.0.260929181845", "2.51.0.240101", True, False),
        ("v2.51.0.260929181845", "2.50.9", False, False),
        ("v2.9.0", "2.51", True, False),
        ("v2.51.3", "2.51.2", False, False),
        ("unknown", "2.51", True, True),
        ("", "2.51", True, True),
    ],
)
def test_sdk_of_the_device_is_not_older(build: str, sdk: str, usable: bool, unjudged: bool) -> None:
    model = quantized()
    put_cache(model, "sm8650", build=build)
    verdict = judged(model, "sm8650", sdk=sdk)
    assert verdict.usable == usable
    assert [item.rule for item in verdict.unjudged] == (["sdk"] if unjudged else [])


def test_sdk_that_nobody_knows_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "library_folder", lambda: _raise())
    model = quantized()
    put_cache(model, "sm8650", build="v99.0.0")
    (verdict,) = verdicts(model, "sm8650")
    assert verdict.usable
    assert [item.rule for item in verdict.unjudged] == ["sdk"]


def _raise() -> Any:
    from xdlc.errors import BackendError

    raise BackendError("not installed")


def test_version_of_the_installed_package_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "build_and_package_info.py").write_text("package_name = 'a'\nqnn_version = '2.51.0'\n")
    monkeypatch.setattr(library, "library_folder", lambda: tmp_path)
    assert library.installed_sdk() == (2, 51, 0)
    assert library.unswept() is None
    (tmp_path / "build_and_package_info.py").write_text("qnn_version = '2.52.1'\n")
    assert "2.52.1" in (library.unswept() or "")
    (tmp_path / "build_and_package_info.py").write_text("version = '1'")
    assert library.installed_sdk() is None
    assert library.unswept() is None


@pytest.mark.parametrize("noted", [True, False])
def test_outputs_that_changed(noted: bool) -> None:
    model = quantized()
    put_cache(model, "sm8650", noted=noted)
    assert judged(model, "sm8650", outputs=["y"]).usable
    for asked in (["y", "pool"], ["pool"]):
        verdict = judged(model, "sm8650", outputs=asked)
        assert broken(verdict) == ["outputs"]
        assert verdict.reason == f"outputs: found 'y', accepted {', '.join(map(repr, sorted(asked)))}"
    with pytest.raises(UsageError, match="has no tensor 'Y'"):
        judged(model, "sm8650", outputs=["Y"])


def _weight(model: Model) -> None:
    tensor = next(held for held in model.main.tensors.values() if held.is_static)
    tensor.data = static("w", tensor.numpy() // 2).data


def _rename(model: Model) -> None:
    model.main.name, graph = "other", model.main
    model.graphs.clear()
    model.add_graph(graph)


@pytest.mark.parametrize("change", [_weight, _rename])
def test_graph_that_changed_is_found_by_its_hash(change: Callable[[Model], None]) -> None:
    model = quantized()
    put_cache(model, "sm8650")
    assert judged(model, "sm8650") == Verdict("htp.cache.sm8650.0", "sm8650", "permissive", (), ())
    before = fingerprint(model.main)
    change(model)
    verdict = judged(model, "sm8650")
    assert set(broken(verdict)) == {"graph"}
    if change is _weight:
        assert before in verdict.failed[0].found
        assert verdict.failed[0].accepted == fingerprint(model.main)


def test_cache_of_another_maker_is_compared_by_inputs_and_outputs() -> None:
    model = quantized()
    put_cache(model, "sm8650", noted=False)
    verdict = judged(model, "sm8650")
    assert verdict.usable
    assert "graph's hash is unknown" in str(verdict.unjudged[0])
    graph = model.metadata["cacheList"][0]["graphs"][0]
    original = described(model.main, 8)
    for key, value, said in (
        ("name", "z", "accepted 'y'"),
        ("dimensions", [1, 6], "'y' ufixed8 1x6"),
        ("dataType", "QNN_DATATYPE_SFIXED_POINT_8", "'y' sfixed8 1x5"),
        ("quantizeParams", {"scaleOffset": {"scale": 0.5, "offset": 0}}, "scale 0.5 offset 0"),
        ("quantizeParams", {}, "accepted 'y' ufixed8 1x5 scale"),
    ):
        graph["graphOutputs"] = [original["graphOutputs"][0] | {key: value}]
        verdict = judged(model, "sm8650")
        assert "graph" in broken(verdict)
        assert said in verdict.reason
    graph["graphOutputs"] = []
    assert "0 output(s) of graph 'cnn': none, accepted 1: 'y'" in judged(model, "sm8650").reason


def test_parts_of_a_graph_are_compared_as_parts() -> None:
    model = quantized()
    ops = [op.name for op in model.main.ops][:2]
    inside = list(model.main.ops)[:2]
    part = partition_of(model.main, inside, leaving(model.main, inside, ["y"]))
    part.name = "cnn_part0"
    name = put_cache(model, "sm8650", graph=part)
    parts = {part.name: GraphFacts(fingerprint(part), "cnn", tuple(ops))}
    cache_provenance.write(model, {name: CacheFacts(parts, 8, 2, None, dlbc=False, xdlc="0.5.0")})
    assert judged(model, "sm8650").usable
    assert broken(judged(model, "sm8650", outputs=["y", "pool"])) == ["outputs"]
    gone = {part.name: GraphFacts(fingerprint(part), "cnn", ("gone",))}
    cache_provenance.write(model, {name: CacheFacts(gone, 8, 2, None, dlbc=False, xdlc="0.5.0")})
    assert "only ops of the model" in judged(model, "sm8650").reason


def test_float_graph_on_a_soc_without_fp16() -> None:
    model = cnn(quantized=False)
    put_cache(model, "sm8550", vtcm_mb=2)
    verdict = judged(model, "sxr1230p")
    assert verdict.reason == "fp16: found 5 op(s) in floating point, accepted none: sxr1230p has no FP16"
    assert judged(model, "sm8650").usable


def test_damaged_and_unlisted_records_are_told() -> None:
    model = quantized()
    name = put_cache(model, "sm8650")
    model.records[name] = raw_data(b"short")
    assert "record: found has 5 bytes, less than its header" in judged(model, "sm8650").reason
    model.metadata["cacheList"] = []
    assert broken(judged(model, "sm8650")) == ["record"]
    assert "not listed" in judged(model, "sm8650").reason


def test_weights_that_are_shared_have_to_be_there() -> None:
    model = quantized()
    name = put_cache(model, "sm8650")
    model.metadata["relations"] = [
        {"parentRecordName": name, "childRecordNames": ["htp.shared.weights.<a>", "other"]}
    ]
    assert "record: found no htp.shared.weights.<a> in the file" in judged(model, "sm8650").reason
    model.records["htp.shared.weights.<a>"] = raw_data(b"w")
    assert judged(model, "sm8650").usable


def test_damaged_facts_are_no_facts_and_told() -> None:
    model = quantized()
    put_cache(model, "sm8650")
    model.records[cache_provenance.RECORD] = raw_data(b"{")
    verdict = judged(model, "sm8650")
    assert verdict.usable
    assert "the record of the caches is not readable JSON" in str(verdict.unjudged[0])


def test_entry_that_tells_nothing_is_not_usable() -> None:
    model = quantized()
    put_cache(model, "sm8650", noted=False)
    entry = model.metadata["cacheList"][0]
    entry |= {"contextMetadata": None, "graphs": [None], "socModel": 57, "buildId": 5}
    verdict = judged(model, "sm8650")
    assert set(broken(verdict)) == {"graph", "arch", "vtcm"}


@pytest.mark.parametrize("device", ["sm8250", "sdm845"])
def test_device_without_htp_is_said_once(device: str) -> None:
    model = quantized()
    put_cache(model, "sm8650")
    put_cache(model, "sm8550")
    with pytest.raises(ConstraintError, match=f"{device} has no HTP"):
        verdicts(model, device)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"mode": "lenient"}, "there is no mode 'lenient'"), ({"sdk": "new"}, "'new' is not a version")],
)
def test_wrong_options_are_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        verdicts(quantized(), "sm8650", **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="unknown SoC 'sm9999'"):
        verdicts(quantized(), "sm9999")


def test_strict_records_are_permissive_ones_on_every_soc() -> None:
    devices = [soc for soc in all_socs() if soc.has_htp]
    for floats, sdk in itertools.product((False, True), ("2.40", "2.51")):
        model = cnn(quantized=not floats)
        for soc, vtcm in itertools.product(("sm8350", "sm8450", "sm7450", "sm8550", "sa8797"), (2, 8)):
            put_cache(model, soc, vtcm_mb=vtcm)
        rows = table(model, devices, modes=CACHE_MODES, sdk=sdk)
        assert len(rows) == 10 * len(devices) * 3
        seen = set()
        for permissive, strict, new in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
            assert {finding.rule for finding in permissive.failed} <= {f.rule for f in strict.failed}
            assert not new.usable
            seen |= {finding.rule for row in (permissive, strict, new) for finding in row.failed}
        assert seen <= set(RULES)
        assert {"arch", "vtcm", "soc", "mode"} <= seen
        assert ("fp16" in seen) == floats
        assert ("sdk" in seen) == (sdk == "2.40")


def test_vtcm_of_zero_stands_for_all_that_the_soc_has() -> None:
    model = quantized()
    put_cache(model, "sm8450", vtcm_mb=0)
    assert broken(judged(model, "sm7450")) == ["vtcm"]
    assert judged(model, "sm8450", "strict").usable
    unknown = next(soc for soc in all_socs() if soc.has_htp and soc.vtcm_mb is None)
    assert [item.rule for item in judged(model, unknown.name).unjudged] == ["vtcm"] or unknown.arch < 69


def test_a_file_of_caches_only_can_be_judged_for_devices() -> None:
    model = quantized()
    put_cache(model, "sm8650", noted=False)
    only = Model({}, dict(model.metadata), dict(model.records))
    assert judged(only, "sm8650").usable
    assert broken(judged(only, "sm8650", outputs=["z"])) == ["outputs"]


@pytest.mark.parametrize("noted", [True, False])
def test_graphs_beside_the_main_one_may_be_missing(noted: bool) -> None:
    model = quantized()
    put_cache(model, "sm8650", noted=noted)
    other = cnn(quantized=True).main
    other.name = "second"
    model.add_graph(other)
    verdict = judged(model, "sm8650")
    assert verdict.usable
    assert "graph: the cache has no graph 'second'" in map(str, verdict.unjudged)
    swapped = Model(dict(reversed(model.graphs.items())), model.metadata, model.records)
    assert (
        "graph: found no graph 'second', accepted a cache with this graph" in judged(swapped, "sm8650").reason
    )
