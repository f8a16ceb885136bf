"""Models that HTP supports in part: what is cached, marked, and left."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support.control_flow_models import loop_model
from tests.support.htp_models import add, cnn, needs_htp, partly, refused
from tests.support.htp_parts import in_segments, parts_of
from xdlc.container import cache_provenance, load
from xdlc.errors import (
    BackendError,
    ConstraintError,
    ProblemList,
    StorageError,
    XdlcError,
    each_problem,
    raise_all,
)
from xdlc.ir import Model, raw_data, string
from xdlc.ir.fingerprint import fingerprint
from xdlc.prepare.htp import Prepared, compile_jobs, prepare_all, prepare_partitions
from xdlc.prepare.htp.partition_plan import mark, plan_partitions
from xdlc.prepare.htp.support_query import CpuFallback, SupportReport
from xdlc.prepare.htp.targets import Target
from xdlc.runtime import htp
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.htp.partition_schedule import partition_graph, partition_name
from xdlc.runtime.htp.process import ForkServer, WorkerSession
from xdlc.runtime.htp.session import emulated_partitions
from xdlc.targets import find_soc
from xdlc.worker.executors import Workers

X = np.random.default_rng(0).uniform(-1, 1, (1, 8, 8, 4)).astype("float32")


def cached(prepared: Prepared) -> dict[str, list[str]]:
    """Return the inputs and outputs of each graph of the first cache."""
    graphs = prepared.model.metadata["cacheList"][0]["graphs"]
    return {
        graph["graphName"]: [port["name"] for port in (*graph["graphInputs"], *graph["graphOutputs"])]
        for graph in graphs
    }


@needs_htp
@pytest.mark.parametrize("quantized", [True, False])
def test_supported_parts_are_cached_and_run_with_the_rest_on_the_cpu(quantized: bool, tmp_path: Path) -> None:
    source = partly(quantized=quantized)
    prepared = prepare_all(source, ["sm8650"], partition=True)
    assert prepared.problems == ()
    assert [tensor.name for tensor in source.main.outputs] == ["c"]
    assert [tensor.name for tensor in prepared.model.main.outputs] == ["c", "a"]
    assert cached(prepared) == {"my_graph_part0": ["x", "a"], "my_graph_part1": ["s", "a", "c"]}
    prepared.model.save(tmp_path / "p.dlc")
    model = load(tmp_path / "p.dlc")
    record = "htp.cache.sm8650.0"
    partitions = parts_of(model, record)
    assert partitions == {
        "my_graph_part0": ("conv2d_a",),
        "my_graph_part1": ("conv2d_b", "elementwisebinary_c"),
    }
    facts = cache_provenance.read(model)[record].graphs
    for name, ops in partitions.items():
        assert facts[name].source == "my graph"
        assert fingerprint(partition_graph(model.main, ops, name)) == facts[name].fingerprint
    with WorkerSession.of_cache(model.records[record]) as emulation:
        emulated = emulated_partitions(model, {model.main.name: partitions}, emulation)
        found = CpuSession(model, accelerator=emulated).run({"x": X}, native=True)
    composed = in_segments(model, partitions, {"x": X})
    on_cpu = CpuSession(model).run({"x": X}, native=True)
    assert list(found) == ["c", "a"]
    for name, array in found.items():
        assert array.dtype == composed[name].dtype
        assert np.array_equal(array, composed[name])
        limit = 1 if quantized else 0.01
        assert np.abs(array.astype("float64") - on_cpu[name].astype("float64")).max() <= limit


@needs_htp
def test_what_is_left_is_told_with_the_reason() -> None:
    prepared = prepare_all(partly(quantized=True), ["sm8550", "sm8650"], partition=True)
    notices: list[str] = []
    xdlc.prepare(partly(quantized=True), ["sm8550", "sm8650"], partition=True, notify=notices.append)
    assert tuple(notices) == prepared.notices
    assert [plan.soc for plan in prepared.plans] == ["sm8550", "sm8650"]
    plan = prepared.plans[0]
    assert (plan.cached, len(plan.partitions), plan.is_whole) == (3, 2, False)
    assert [(left.op, left.type) for left in plan.left] == [("softmax_s", "Softmax")]
    assert prepared.notices[0] == "sm8550, sm8650: HTP runs 3 of 4 ops, in 2 partition(s)"
    assert prepared.notices[1].startswith("sm8550, sm8650: the CPU runs 1 Softmax ('softmax_s'): ")
    assert prepared.notices[-1] == "1 tensor(s) between partitions are outputs now: 'a'"
    assert prepared.model.metadata["history"][-1]["args"]["partition"] == "True"


@needs_htp
def test_the_same_again_is_kept_and_another_soc_is_added() -> None:
    first = prepare_all(partly(quantized=True), ["sm8650"], partition=True).model
    again = prepare_all(first, ["sm8650", "sm8550"], partition=True)
    assert again.kept == ("sm8650",)
    assert again.model.records["htp.cache.sm8650.0"] is first.records["htp.cache.sm8650.0"]
    assert again.done == ("sm8650", "sm8550")


@needs_htp
def test_where_all_is_taken_it_is_as_without_partition() -> None:
    plain = prepare_all(cnn(quantized=True), ["sm8650"])
    parted = prepare_all(cnn(quantized=True), ["sm8650"], partition=True)
    assert [tensor.name for tensor in parted.model.main.outputs] == ["y"]
    assert list(parted.model.records) == list(plain.model.records)
    for name, record in plain.model.records.items():
        assert parted.model.records[name].numpy().tobytes() == record.numpy().tobytes()
    assert parted.notices == ("sm8650: HTP runs 5 of 5 ops, in 1 partition(s)",)


@needs_htp
def test_where_nothing_is_taken_all_reasons_are_given() -> None:
    prepared = prepare_all(refused(), ["sm8650"], partition=True)
    (problem,) = prepared.problems
    assert isinstance(problem, ProblemList)
    assert [(each.node, each.op) for each in problem.problems] == [("softmax", "Softmax"), ("tile", "Tile")]
    assert not prepared.model.records
    assert [tensor.name for tensor in prepared.model.main.outputs] == ["y", "z"]


@needs_htp
def test_a_float_model_on_a_soc_without_fp16_is_one_error() -> None:
    (problem,) = prepare_all(cnn(quantized=False), ["sxr1230p"], partition=True).problems
    (only,) = problem.problems if isinstance(problem, ProblemList) else (problem,)
    assert isinstance(only, ConstraintError)
    assert "has no FP16: it supports only ops of quantized types; 4 op(s) compute in" in only.problem


@needs_htp
def test_loops_run_on_the_host_and_partitions_of_their_bodies_on_htp() -> None:
    model = loop_model()
    graph = model.main
    source = graph.outputs[0]
    result = graph.add_output(type(source)("last", source.shape, source.dtype))
    add(graph, "Softmax", [source], result)
    prepared = prepare_all(model, ["sm8650"], partition=True)
    assert prepared.problems == ()
    (plan,) = prepared.plans
    assert [(left.graph, left.type) for left in plan.left] == [
        ("main", "While"),
        ("main_cond", "ElementWiseBinary"),
        ("main_body", "ElementWiseBinary"),
    ]
    partitions = parts_of(prepared.model, "htp.cache.sm8650.0")
    assert list(partitions) == ["main_part0", "main_body_part0"]
    by_graph = {
        "main": {"main_part0": partitions["main_part0"]},
        "main_body": {"main_body_part0": partitions["main_body_part0"]},
    }
    feeds = {"x": np.ones(3, "float32"), "n": np.full(1, 3, "int32"), "f": np.full(3, 2, "float32")}
    with WorkerSession.of_cache(prepared.model.records["htp.cache.sm8650.0"]) as emulation:
        emulated = emulated_partitions(prepared.model, by_graph, emulation)
        found = CpuSession(prepared.model, accelerator=emulated).run(feeds)
    expected = CpuSession(model).run(feeds)
    for name, array in expected.items():
        assert np.allclose(found[name], array, atol=2e-3)


@needs_htp
@pytest.mark.parametrize("partition", [True, False])
def test_broken_rules_of_control_flow_are_reported_before_the_library_is_queried(partition: bool) -> None:
    model = loop_model()
    model.main.ops[0].params["body_graph"] = string("main")
    with pytest.raises(ConstraintError, match="body_graph 'main'"):
        prepare_all(model, ["sm8650"], partition=partition)


# ------------------------------------------------------------------------ without the library


def left(op: str) -> dict[tuple[str, str], CpuFallback]:
    return {("my graph", op): CpuFallback("my graph", op, "Odd", "it is odd")}


def test_marks_are_the_union_over_the_socs() -> None:
    model = partly(quantized=True)
    plans = [
        plan_partitions(model, "one", left("softmax_s")),
        plan_partitions(model, "two", left("elementwisebinary_c")),
        plan_partitions(model, "three", {}),
    ]
    assert [partition.name for partition in plans[0].partitions] == ["my_graph_part0", "my_graph_part1"]
    assert [partition.ops for partition in plans[1].partitions] == [("conv2d_a", "softmax_s", "conv2d_b")]
    assert [(partition.name, partition.ops) for partition in plans[2].partitions] == [("my graph", None)]
    assert plans[2].is_whole
    assert mark(model, plans) == ["a", "b"]
    assert [tensor.name for tensor in model.main.outputs] == ["c", "a", "b"]
    assert mark(model, plans) == []


def test_a_graph_that_is_taken_whole_is_not_divided_even_if_not_worth_it() -> None:
    model = partly(quantized=True)
    graph = model.main
    lone = graph.add_input(type(graph.inputs[0])("lone", (4, 4), graph.inputs[0].dtype))
    graph.add_output(add(graph, "Reshape", [lone], type(lone)("flat", (16,), lone.dtype)))
    assert plan_partitions(model, "soc", {}).is_whole
    plan = plan_partitions(model, "soc", left("softmax_s"))
    assert [each.reason for each in plan.left if each.op == "reshape_flat"] == [
        "runs faster on the CPU, without copies to HTP and back"
    ]


def test_names_of_parts_are_identifiers_of_their_own() -> None:
    assert partition_name("torch-jit export", 3) == "torch_jit_export_part3"
    assert partition_name("0", 0) == "_0_part0"
    assert partition_name("", 0) == "__part0"
    assert partition_name("g", 0, {"g_part0"}) == "_g_part0"


Fails = Callable[[list[str]], XdlcError | None]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """Divide with a fake library that supports all ops but one."""

    def run(
        model: Model, odd: str, fails: Fails, **options: Any
    ) -> tuple[prepare_partitions.PartitionJobs, list[list[list[str]]]]:
        compiled: list[list[list[str]]] = []

        def compile_for(given: Any, soc: str, options: object, **_: object) -> htp.Compiled:
            held = given if isinstance(given, Model) else load(given)
            partitions = [[op.name for op in graph.ops] for graph in held.graphs.values()]
            compiled.append(partitions)
            raise_all(list(filter(None, map(fails, partitions))))
            return htp.Compiled(raw_data(b""), {})

        monkeypatch.setattr(prepare_partitions, "query_support", lambda *_, **__: SupportReport(left(odd)))
        for module in (prepare_partitions, compile_jobs):
            monkeypatch.setattr(module, "compile_for", compile_for)
        monkeypatch.setattr(compile_jobs, "check", lambda *_: None)
        path = tmp_path / "model.dlc"
        model.save(path)
        target = Target(find_soc("sm8650"), htp.CompileOptions())
        with ForkServer(path) as server:  # which starts nothing unless it is asked to
            site = compile_jobs.Site(model, path, Workers(), server)
            made = prepare_partitions.PartitionJobs(site, "model", [target], {}, 60, **options)
            made.do(None, 1)
        return made, compiled

    return run


def test_a_part_that_does_not_compile_is_cut_in_two(fake: Callable[..., Any]) -> None:
    def fails(ops: list[str]) -> XdlcError | None:
        return BackendError("finalize failed") if {"conv2d_b", "elementwisebinary_c"} <= set(ops) else None

    work, compiled = fake(partly(quantized=True), "softmax_s", fails)
    assert work.failures() == {}
    (plan,) = work.plans()
    assert [partition.ops for partition in plan.partitions] == [
        ("conv2d_a",),
        ("conv2d_b",),
        ("elementwisebinary_c",),
    ]
    assert [left.op for left in plan.left] == ["softmax_s"]
    assert work.marked == ["a", "b"]
    told = "splits a partition before 'elementwisebinary_c', because the compiler failed on it: finalize"
    assert any(told in notice for notice in work.notices())
    first, both, second, third = (
        ["conv2d_a"],
        ["conv2d_b", "elementwisebinary_c"],
        ["conv2d_b"],
        ["elementwisebinary_c"],
    )
    assert compiled == [[first, both], [first], [both], [first, second, third]]


def test_an_op_that_never_compiles_is_left_to_the_cpu(fake: Callable[..., Any]) -> None:
    def fails(ops: list[str]) -> XdlcError | None:
        return BackendError("finalize failed") if "conv2d_b" in ops else None

    made, _ = fake(partly(quantized=True), "softmax_s", fails)
    (plan,) = made.plans()
    assert [partition.ops for partition in plan.partitions] == [("conv2d_a",)]
    assert [(left.op, left.reason) for left in plan.left] == [
        ("softmax_s", "it is odd"),
        ("conv2d_b", "the compiler fails on its partition: finalize failed"),
        ("elementwisebinary_c", "runs faster on the CPU, without copies to HTP and back"),
    ]


def test_without_partition_the_compiler_may_not_fail_on_the_main_graph(fake: Callable[..., Any]) -> None:
    def fails(ops: list[str]) -> XdlcError | None:
        return BackendError("finalize failed") if "conv2d_b" in ops else None

    made, _ = fake(partly(quantized=True), "softmax_s", fails, strict=True)
    assert [problem.problem for problem in made.failures().values()] == ["finalize failed"]


def test_an_op_refused_only_in_its_part_is_left_to_the_cpu(fake: Callable[..., Any]) -> None:
    def fails(ops: list[str]) -> XdlcError | None:
        return ConstraintError("too deep", node="conv2d_a") if "conv2d_a" in ops else None

    made, _ = fake(partly(quantized=True), "softmax_s", fails)
    (plan,) = made.plans()
    assert [partition.ops for partition in plan.partitions] == [("conv2d_b", "elementwisebinary_c")]
    assert [(left.op, left.reason) for left in plan.left] == [
        ("conv2d_a", "too deep"),
        ("softmax_s", "it is odd"),
    ]


def test_where_no_part_compiles_the_compilers_words_are_given(fake: Callable[..., Any]) -> None:
    made, compiled = fake(partly(quantized=True), "softmax_s", lambda ops: BackendError("finalize failed"))
    (problem,) = made.failures().values()
    assert (
        "HTP supports no partition of the graph: it is odd; "
        "the compiler fails on its partition: finalize failed" in str(problem)
    )
    assert len(compiled) < 16


def test_what_fails_only_together_is_an_error(fake: Callable[..., Any]) -> None:
    calls = []

    def fails(ops: list[str]) -> XdlcError | None:
        calls.append(ops)
        return BackendError("too large") if len(calls) == 2 else None

    made, compiled = fake(partly(quantized=True), "softmax_s", fails)
    assert [problem.problem for problem in made.failures().values()] == ["too large"]
    assert len(compiled) == 3  # both partitions, then each alone


def test_a_full_disk_is_no_reason_to_divide(fake: Callable[..., Any]) -> None:
    made, compiled = fake(partly(quantized=True), "softmax_s", lambda ops: StorageError("disk full"))
    (problem,) = made.failures().values()
    assert {each.problem for each in each_problem(problem)} == {"disk full"}
    assert len(compiled) == 1
