import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.htp_models import cnn, needs_htp, prepared_cnn, refused
from tests.support.running import run_cache, run_htp
from tests.support.single_ops import op_graph
from xdlc.container import cache_provenance, load
from xdlc.errors import BackendError, ConstraintError, ContainerError, UsageError
from xdlc.ir import Model, Tensor, raw_data, static, u32
from xdlc.ir import dtype as dt
from xdlc.prepare.htp import Prepared, PrepareError, by_cause, prepare, prepare_all
from xdlc.runtime.htp.cache_verdict import verdicts

SOCS = ["sm8550", "sm8650"]


@needs_htp
@pytest.mark.parametrize("quantized", [False, True])
def test_each_soc_gets_its_cache_and_the_model_stays(quantized: bool, tmp_path: Path) -> None:
    model = cnn(quantized=quantized)
    steps: list[tuple[str, int, int]] = []
    prepared = prepare(model, SOCS, step=lambda title, done, total: steps.append((title, done, total)))
    assert (steps[0][1:], steps[-1][1:]) == ((0, 2), (2, 2))
    assert not model.records
    assert [entry["cacheName"] for entry in prepared.metadata["cacheList"]] == [
        "htp.cache.sm8550.0",
        "htp.cache.sm8650.0",
    ]
    prepared.save(tmp_path / "p.dlc")
    again = load(tmp_path / "p.dlc")
    x = np.random.default_rng(0).uniform(-1, 1, (1, 8, 8, 4)).astype("float32")
    cache = again.records["htp.cache.sm8650.0"]
    assert np.array_equal(run_cache(cache, {"x": x})["y"], run_htp(again, {"x": x})["y"])


@needs_htp
def test_wide_integers_are_narrowed_in_the_cache_only() -> None:
    x, y = Tensor("x", (2,), dt.INT64), Tensor("y", (2,), dt.INT64)
    step = static("step", np.array([2, -3]))
    graph = op_graph("ElementWiseBinary", [x, step], [y], {"operation": u32(0)}, name="add")
    prepared = prepare(Model({"g": graph}), ["sm8650"])
    (described,) = prepared.metadata["cacheList"][0]["graphs"]
    ports = (*described["graphInputs"], *described["graphOutputs"])
    assert [port["dataType"] for port in ports] == ["QNN_DATATYPE_INT_64"] * 2
    assert {tensor.dtype for tensor in prepared.main.tensors.values()} == {dt.INT64}
    found = run_cache(prepared.records["htp.cache.sm8650.0"], {"x": np.array([5, -5])})["y"]
    assert found.tolist() == [7, -8]


@needs_htp
def test_damaged_facts_are_replaced_as_their_error_says() -> None:
    model = cnn(quantized=True)
    model.records[cache_provenance.RECORD] = raw_data(b'{"version": 9}')
    with pytest.raises(ContainerError, match="has version 9") as caught:
        prepare_all(model, ["sm8650"])
    assert "overwrite_cache_records=True" in (caught.value.fix or "")
    prepared = prepare_all(model, ["sm8650"], overwrite_cache_records=True)
    assert prepared.notices == ("record 'xdlc.caches' is damaged: facts about existing caches are lost",)
    assert list(cache_provenance.read(prepared.model)) == ["htp.cache.sm8650.0"]


@needs_htp
def test_same_input_gives_the_same_file(tmp_path: Path) -> None:
    prepared_cnn(*SOCS).save(tmp_path / "a.dlc")
    prepare(cnn(quantized=True), SOCS).save(tmp_path / "b.dlc")
    assert (tmp_path / "a.dlc").read_bytes() == (tmp_path / "b.dlc").read_bytes()


@needs_htp
def test_default_plans_for_all_vtcm_and_override_for_less() -> None:
    def planned(model: Model) -> int:
        return int(model.metadata["cacheList"][0]["graphs"][0]["graphBlobInfo"]["vtcmSize"])

    assert planned(prepared_cnn("sm8650")) == 8
    assert planned(prepare(cnn(quantized=True), ["sm8650"], vtcm_override=0)) == 8
    assert planned(prepare(cnn(quantized=True), ["sm8650"], vtcm_override=2)) == 2


@needs_htp
def test_identical_cache_is_kept_and_another_of_ours_is_replaced_with_a_reason() -> None:
    first = prepared_cnn("sm8650")
    steps: list[tuple[str, int, int]] = []
    second = prepare_all(first, SOCS, jobs=1, step=lambda *seen: steps.append(seen))
    assert [seen[1:] for seen in steps] == [(1, 2), (2, 2), (2, 2)]
    assert "sm8550" in steps[0][0]
    assert (second.done, second.kept, second.failed) == (("sm8550", "sm8650"), ("sm8650",), ())
    assert second.notices == ("sm8650: xdlc keeps htp.cache.sm8650.0: the cache is up to date",)
    name = "htp.cache.sm8650.0"
    assert second.model.records[name] is first.records[name]
    assert [step["args"]["htp_socs"] for step in second.model.metadata["history"]] == ["sm8650", "sm8550"]
    again = prepare_all(second.model, SOCS)
    assert again.kept == ("sm8550", "sm8650")
    assert again.model.metadata["history"] == second.model.metadata["history"]
    third = prepare_all(first, ["sm8650"], vtcm_override=2)
    (notice,) = third.notices
    assert (
        notice == "sm8650: xdlc replaces htp.cache.sm8650.0, which was compiled with vtcm_mb 8 instead of 2"
    )
    (entry,) = third.model.metadata["cacheList"]
    assert entry["graphs"][0]["graphBlobInfo"]["vtcmSize"] == 2
    assert cache_provenance.read(third.model)[name].vtcm_mb == 2


@needs_htp
def test_cache_of_a_graph_that_changed_or_of_another_build_is_replaced() -> None:
    first = prepared_cnn("sm8650")
    entry = first.metadata["cacheList"][0]
    build = entry["buildId"]
    entry["buildId"] = "v2.40.0"
    result = prepare_all(first, ["sm8650"])
    assert result.kept == ()
    assert f"from build 'v2.40.0' of the vendor's library, but build '{build}'" in result.notices[0]
    changed = result.model.clone()
    tensor = next(held for held in changed.main.tensors.values() if held.is_static)
    tensor.data = static("w", tensor.numpy() // 2).data
    again = prepare_all(changed, ["sm8650"])
    assert again.notices == (
        "sm8650: xdlc replaces htp.cache.sm8650.0, which is for an older version of the graph",
    )
    assert cache_provenance.read(again.model) != cache_provenance.read(result.model)


@needs_htp
def test_told_to_overwrite_an_identical_cache_is_compiled_again() -> None:
    first = prepared_cnn("sm8650")
    second = prepare_all(first, ["sm8650"], overwrite_cache_records=True)
    assert (second.kept, second.notices) == ((), ())
    name = "htp.cache.sm8650.0"
    assert second.model.records[name] is not first.records[name]
    assert np.array_equal(second.model.records[name].numpy(), first.records[name].numpy())


@needs_htp
def test_cache_that_xdlc_did_not_make_is_replaced_only_if_told() -> None:
    first = prepared_cnn("sm8650")
    del first.records[cache_provenance.RECORD]
    alike = prepare_all(first, ["sm8650"])
    assert alike.kept == ("sm8650",)
    assert "another tool compiled the cache" in alike.notices[0]
    assert cache_provenance.RECORD not in alike.model.records
    with pytest.raises(UsageError, match="already has a cache for sm8650, not from xdlc"):
        prepare(first, ["sm8650"], vtcm_override=2)
    other = prepare(first, ["sm8650"], vtcm_override=2, overwrite_cache_records=True)
    assert list(cache_provenance.read(other)) == ["htp.cache.sm8650.0"]
    assert len(other.metadata["cacheList"]) == 1


@needs_htp
def test_architectures_have_caches_of_their_own_that_plan_for_the_smallest_soc() -> None:
    model = cnn(quantized=True)
    first = prepare(model, htp_archs=["v75", "v73"])
    names = ["htp.cache.sm8550.0", "htp.cache.sm8650.0"]
    assert [entry["cacheName"] for entry in first.metadata["cacheList"]] == names
    found = [entry["graphs"][0]["graphBlobInfo"]["vtcmSize"] for entry in first.metadata["cacheList"]]
    assert found == [2, 8]
    assert first.metadata["history"][-1]["args"]["htp_archs"] == "v73,v75"
    feeds = {"x": np.random.default_rng(3).uniform(-1, 1, (1, 8, 8, 4)).astype("float32")}
    for name, soc in zip(names, SOCS, strict=True):
        given, wanted = run_cache(first.records[name], feeds), run_htp(model, feeds, soc=soc)
        assert np.array_equal(given["y"], wanted["y"])
    assert prepare_all(first, htp_archs=["v73"]).kept == ("sm8550",)
    second = prepare_all(first, ["sm8650"])
    assert "was compiled with arch_only True instead of False" in second.notices[0]
    assert not np.array_equal(second.model.records[names[1]].numpy(), first.records[names[1]].numpy())


@needs_htp
def test_socs_share_weights_if_told(tmp_path: Path) -> None:
    model = cnn(quantized=True)
    plain, shared = prepared_cnn(*SOCS), prepare(model, SOCS, share_weights=True)
    caches = [f"htp.cache.{soc}.0" for soc in SOCS]
    weights, about = (name for name in shared.records if name.startswith(("htp.shared", "htp.metadata")))
    assert all(shared.records[name].nbytes < plain.records[name].nbytes for name in caches)
    found = {item["parentRecordName"]: item["childRecordNames"] for item in shared.metadata["relations"]}
    assert found == {key: [weights] for key in (*caches, about)}
    assert [facts.share_weights for facts in cache_provenance.read(shared).values()] == [True, True]
    assert prepare_all(shared, SOCS, share_weights=True).kept == tuple(SOCS)
    bytes_of_weights = shared.records[weights]
    shared.records[weights] = raw_data(bytes(bytes_of_weights.content())[::-1])
    assert not any(verdict.usable for soc in SOCS for verdict in verdicts(shared, soc))
    shared.records[weights] = bytes_of_weights
    again = prepare_all(shared, SOCS)
    assert "was compiled with share_weights True instead of False" in again.notices[0]
    assert not [name for name in again.model.records if "weights" in name]
    with pytest.raises(BackendError, match="loading the cache"):
        run_cache(shared.records[caches[0]], {"x": np.zeros((1, 8, 8, 4), "float32")})
    shared.save(tmp_path / "a.dlc")
    prepare(model, SOCS, share_weights=True).save(tmp_path / "b.dlc")
    assert (tmp_path / "a.dlc").read_bytes() == (tmp_path / "b.dlc").read_bytes()


@needs_htp
def test_refused_ops_are_reported_for_each_soc() -> None:
    result = prepare_all(refused(), SOCS)
    assert not result.done
    assert len(result.problems) == 2
    for soc, problem in zip(SOCS, result.problems, strict=True):
        assert f"model: {soc}: graph 'refused': op 'softmax' (Softmax)" in str(problem)


@needs_htp
def test_float_graph_is_compiled_where_there_is_fp16_and_is_one_problem_elsewhere() -> None:
    result = prepare_all(cnn(quantized=False), ["sm8350", "sm8450", "sm8750", "sa8295", "qcs6490"])
    assert result.done == ("sm8350", "sm8450", "sm8750", "sa8295")
    (problem,) = result.problems
    assert isinstance(problem, ConstraintError)
    assert str(problem).startswith("model: qcs6490: graph 'cnn': op 'conv2d_conv' (Conv2d) and others: ")
    assert problem.problem == (
        "this SoC has no FP16: it supports only ops of quantized types; 4 op(s) compute in FP16"
    )


@needs_htp
def test_the_error_of_some_socs_has_the_caches_of_the_others() -> None:
    with pytest.raises(PrepareError, match="has no FP16") as caught:
        prepare(cnn(quantized=False), ["qcs6490", "sm8650"])
    assert [entry["cacheName"] for entry in caught.value.model.metadata["cacheList"]] == [
        "htp.cache.sm8650.0"
    ]


@pytest.mark.parametrize(
    ("socs", "options", "said"),
    [
        ([], {}, "no SoC is named"),
        (["sm8650"], {"optimization_level": 4}, "optimization_level: expected a number from 1 to 3"),
        (["sm8650"], {"vtcm_override": 16}, "sm8650 has 8 MB"),
        (["sm9999"], {}, "sm9999"),
    ],
)
def test_wrong_options_are_named(socs: list[str], options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        prepare(cnn(quantized=False), socs, **options)


def test_soc_without_htp_is_refused() -> None:
    with pytest.raises(ConstraintError, match="sm8250 has no HTP"):
        prepare(cnn(quantized=False), ["sm8250"])


@needs_htp
def test_model_of_caches_only_is_refused() -> None:
    with pytest.raises(UsageError, match="holds no graph"):
        prepare(Model(), ["sm8650"])


@needs_htp
@pytest.mark.vendor
@pytest.mark.parametrize("quantized", [False, True])
def test_vendor_finds_the_caches(
    quantized: bool, tmp_path: Path, vendor_check: Callable[..., dict[str, Any]]
) -> None:
    path = tmp_path / "p.dlc"
    prepare(cnn(quantized=quantized), SOCS).save(path)
    answer = vendor_check("caches", path)
    assert answer["ok"], answer["reason"]
    found = {cache["record"]: cache["soc_id"] for cache in answer["caches"]}
    assert found == {"htp.cache.sm8550.0": 43, "htp.cache.sm8650.0": 57}
    assert not answer["unlisted_entries"]
    assert answer["model_graphs"] == ["cnn"]
    listed = json.dumps(answer["caches"])
    assert '"vtcm_bytes": 8388608' in listed


@pytest.mark.parametrize(
    ("problem", "where", "merged"),
    [
        ("no kernel for op 0x1f", "model: {soc}", "model: {socs}: no kernel for op 0x1f"),
        ("{soc}: no kernel for op 0x1f", "model", "model: {socs}: no kernel for op 0x1f"),
        ("{soc}: no kernel", None, "{socs}: no kernel"),
        ("no kernel", "graph 'g'", "{socs}: graph 'g': no kernel"),
        ("no kernel", None, "{socs}: no kernel"),
    ],
)
def test_the_problem_of_several_socs_names_all_of_them(problem: str, where: str | None, merged: str) -> None:
    problems = [
        BackendError(
            problem.format(soc=soc).replace("1f", f"{place}f"), where=where and where.format(soc=soc)
        )
        for place, soc in enumerate(SOCS, 1)
    ]
    (error,) = by_cause(Prepared(Model(), (), tuple(problems), failed=tuple(SOCS)))
    assert str(error) == merged.format(socs="sm8550, sm8650")


@needs_htp
def test_an_error_of_several_socs_states_each_cause_once() -> None:
    with pytest.raises(PrepareError) as caught:
        prepare(refused(), SOCS)
    assert [problem.node for problem in caught.value.problems] == ["softmax", "tile"]
    for problem in caught.value.problems:
        assert str(problem.where).startswith(f"model: sm8550, sm8650: graph 'refused': op {problem.node!r}")
        assert problem.fix
