from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import xdlc
from tests.support.control_flow_models import ADD, MULTIPLY, binary, graph_of, loop_model
from tests.support.faulty_ops import CASES, leave_out_forms
from tests.support.htp_models import cnn, needs_htp, prepared_cnn
from tests.support.single_ops import op_graph
from xdlc.container import cache_provenance
from xdlc.ir import Graph, Model, Role, Tensor, b8, i32, make_op, raw_data, static, u32
from xdlc.ir import dtype as dt
from xdlc.ir.data import Array
from xdlc.opdefs.elementwise_enums import ATAN, SUBTRACT
from xdlc.prepare.htp import op_judgement, prepare, prepare_all, verify
from xdlc.prepare.htp.verify import seeded
from xdlc.runtime.htp.cache_verdict import verdicts
from xdlc.runtime.htp.process import start

NAME = "htp.cache.sm8650.0"


@needs_htp
def test_cache_of_another_network_is_neither_kept_nor_usable() -> None:
    model, other = prepared_cnn("sm8650"), prepare(cnn(quantized=False), ["sm8650"])
    model.records[NAME] = other.records[NAME]
    (verdict,) = verdicts(model, "sm8650")
    assert [finding.rule for finding in verdict.failed] == ["record"]
    again = prepare_all(model, ["sm8650"])
    assert again.kept == ()
    assert again.done == ("sm8650",)
    assert all(row.usable for row in verdicts(again.model, "sm8650"))


@needs_htp
def test_changed_byte_is_noticed() -> None:
    model = prepared_cnn("sm8650")
    content = bytearray(model.records[NAME].content())
    content[len(content) // 2] ^= 1
    model.records[NAME] = raw_data(bytes(content))
    assert not verdicts(model, "sm8650")[0].usable
    assert prepare_all(model, ["sm8650"]).kept == ()


@needs_htp
def test_record_without_hash_stays_readable() -> None:
    model = prepared_cnn("sm8650")
    facts = cache_provenance.read(model)[NAME]
    assert facts.content is not None
    text = bytes(model.records[cache_provenance.RECORD].content())
    model.records[cache_provenance.RECORD] = raw_data(text.replace(f'"{facts.content}"'.encode(), b"null"))
    assert verdicts(model, "sm8650")[0].usable


@needs_htp
def test_record_has_the_figures() -> None:
    verified = cache_provenance.read(prepared_cnn("sm8650"))[NAME].verified
    assert verified is not None
    assert (verified.soc, verified.inputs, verified.share) == ("sm8650", "seeded", 1.0)
    assert verified.outputs["y"].sqnr > 30


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let children compile without the forms that avoid faults of the library."""
    leave_out_forms(tmp_path, monkeypatch)


@needs_htp
@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize(
    "case", ["output-padding", "wide-padding-3d", "average-pool", "edge-pad", "arc-tangent"]
)
def test_planted_fault_is_an_error_that_names_the_op(case: str) -> None:
    model, feeds = CASES[case]()
    prepared = prepare_all(model, ["sm8650"], verify=feeds)
    (problem,) = prepared.problems
    assert (prepared.done, prepared.failed, problem.node) == ((), ("sm8650",), "op")
    assert not prepared.model.records
    assert prepare_all(model, ["sm8650"], verify=False).done == ("sm8650",)


def product(channels: int, features: int) -> Model:
    """A FullyConnected whose weights have blocks, as Conv2d is not yet in its place."""
    rng = np.random.default_rng(0)
    source = Tensor("x", (1, channels), dt.FLOAT32)
    weight = static("w", (rng.standard_normal((features, channels)) / channels**0.5).astype("f4"))
    result = Tensor("y", (1, features), dt.FLOAT32)
    graph = op_graph("FullyConnected", [source, weight], [result], name="product")
    samples = [{"x": rng.standard_normal((1, channels)).astype("f4")} for _ in range(4)]
    widths = {"weights_bitwidth": 4, "act_bitwidth": 16, "weights_block_size": 32, "use_lpbq": True}
    return xdlc.quantize(Model({"g": graph}), samples, **widths)  # type: ignore[arg-type]


@needs_htp
@pytest.mark.usefixtures("planted")
def test_weights_with_blocks_in_a_product_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xdlc.passes.convolve_blocks._rewrite", lambda graph, expands: False)
    model = product(128, 160)
    assert [op.type for op in model.main.ops if op.name == "product"] == ["FullyConnected"]
    (problem,) = prepare_all(model, ["sm8650"]).problems
    assert problem.node == "product"


@needs_htp
@pytest.mark.parametrize("channels", [512, 64])  # with 64 few values are too large
def test_values_too_large_for_float16_are_an_error(channels: int) -> None:
    rng = np.random.default_rng(0)
    graph = Graph("g")
    source = graph.add_input(Tensor("x", (4, channels), dt.FLOAT32))
    weight = static("w", np.rint(rng.standard_normal((32, channels)) * 127).astype("f4"))
    steps, sums, largest, result = (
        Tensor(name, shape, dt.FLOAT32)
        for name, shape in (("steps", (4, channels)), ("sums", (4, 32)), ("largest", (4, 1)), ("y", (4, 32)))
    )
    graph.append(
        make_op(graph, "ElementWiseMultiply", [source, static("s", np.float32([127]))], [steps], name="scale")
    )
    graph.append(make_op(graph, "FullyConnected", [steps, weight], [sums], name="product"))
    axes = {"axes": static("axes", np.uint32([1])), "keep_dims": b8(True)}
    graph.append(make_op(graph, "ReduceMax", [source], [largest], axes, name="largest"))
    graph.append(make_op(graph, "ElementWiseDivide", [sums, largest], [result], name="divide"))
    graph.add_output(result)
    (problem,) = prepare_all(Model({"g": graph}), ["sm8650"]).problems
    assert problem.node == "product"


@needs_htp
@pytest.mark.parametrize("case", ["output-padding", "wide-padding-3d", "average-pool", "edge-pad", "sine"])
def test_right_forms_raise_no_alarm(case: str) -> None:
    model, feeds = CASES[case]()
    prepared = prepare_all(model, ["sm8650"], verify=feeds)
    (facts,) = cache_provenance.read(prepared.model).values()
    assert (prepared.problems, facts.verified and facts.verified.share) == ((), 1.0)


@needs_htp
@pytest.mark.usefixtures("planted")
def test_beyond_the_budget_the_riskiest_ops_are_verified_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "seconds", lambda _: 1e9)
    model, feeds = CASES["wide-padding-3d"]()
    assert [problem.node for problem in prepare_all(model, ["sm8650"], verify=feeds).problems] == ["op"]
    monkeypatch.setattr(op_judgement, "VALUES", 1e-3)
    result = prepare_all(model, ["sm8650"], verify=feeds)
    assert ("0%" in result.notices[0], result.problems) == (True, ())


def distances(*, quantized: bool) -> Model:
    """The small difference of two products, whose roundings are coarse beside it."""
    graph = Graph("g")
    source = graph.add_input(Tensor("x", (1, 4, 4, 64), dt.FLOAT32))
    rng = np.random.default_rng(0)
    factors = rng.uniform(1, 2, 64).astype("f4")
    spread = 0.03 if quantized else 0.001
    others = factors * rng.uniform(1 - spread, 1 + spread, 64).astype("f4")
    products = [
        binary(graph, MULTIPLY, source, static(f"f{number}", each), f"p{number}")
        for number, each in enumerate((factors, others))
    ]
    graph.add_output(binary(graph, SUBTRACT, *products, "y"))
    model = Model({"g": graph})
    return xdlc.quantize(model, [seeded(graph)]) if quantized else model


def ran(model: Model, results: Callable[[Array], Array]) -> op_judgement.Ran:
    feeds = seeded(model.main)
    expected = xdlc.run(model, feeds)
    changed = {name: results(array) for name, array in expected.items()}
    return op_judgement.Ran(model, "sm8650", feeds, expected, changed, 0.0, "net: sm8650", start)


@pytest.mark.parametrize("quantized", [True, False])
def test_rounding_of_all_values_explains_a_poor_output(quantized: bool) -> None:
    rng, model = np.random.default_rng(0), distances(quantized=quantized)
    noisy = {
        share: ran(model, lambda y, share=share: y + share * y.std() * rng.standard_normal(y.shape))
        for share in (0.1, 1.0)
    }
    (near,), (far,) = (each.differences().values() for each in noisy.values())
    assert not op_judgement.is_near(noisy[0.1].model.main.outputs[0], near)
    assert (near.figures().db < op_judgement.NEAR, far.figures().db < 1) == (True, True)
    assert [op_judgement.is_explained(each) for each in noisy.values()] == [True, False]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rounding_explains_no_nan(value: float) -> None:
    assert not op_judgement.is_explained(
        ran(distances(quantized=True), lambda y: np.where(y == y.max(), value, y))
    )


@needs_htp
def test_accumulated_rounding_is_verified_without_judging_ops() -> None:
    (facts,) = cache_provenance.read(prepare(distances(quantized=True), ["sm8650"])).values()
    assert facts.verified is not None
    assert (facts.verified.share, facts.verified.judged) == (1.0, None)


@needs_htp
@pytest.mark.usefixtures("planted")
def test_fault_that_rounding_hides_is_found_in_ops_of_another_form() -> None:
    model, feeds = CASES["average-pool"]()
    graph = model.main
    (pooled,) = graph.outputs
    graph.outputs.clear()
    pooled.role = Role.NATIVE
    rng = np.random.default_rng(0)
    feeds["z"] = rng.standard_normal(pooled.shape).astype("f4")
    source = graph.add_input(Tensor("z", pooled.shape, pooled.dtype))
    factors = rng.uniform(1, 2, pooled.shape).astype("f4")
    others = factors * rng.uniform(0.996, 1.004, pooled.shape).astype("f4")
    products = [
        binary(graph, MULTIPLY, source, static(f"f{number}", each), f"p{number}")
        for number, each in enumerate((factors, others))
    ]
    little = binary(graph, MULTIPLY, pooled, static("little", np.float32([2e-4])), "part")
    graph.add_output(binary(graph, ADD, binary(graph, SUBTRACT, *products, "noise"), little, "sum"))
    (problem,) = prepare_all(model, ["sm8650"], verify=feeds).problems
    assert problem.node == "op"


@needs_htp
def test_without_time_to_judge_ops_the_record_and_a_notice_have_the_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(op_judgement, "is_explained", lambda _: False)
    monkeypatch.setattr(op_judgement.Ran, "is_near", lambda _: False)
    judged = prepare_all(cnn(quantized=True), ["sm8650"])
    monkeypatch.setattr(verify, "seconds", lambda _: 0)
    monkeypatch.setattr(op_judgement, "AGAIN", 1e9)
    monkeypatch.setattr(op_judgement, "VALUES", 1e-9)
    late = prepare_all(cnn(quantized=True), ["sm8650"])
    shares = []
    for prepared in (judged, late):
        (facts,) = cache_provenance.read(prepared.model).values()
        assert (prepared.problems, facts.verified and facts.verified.share) == ((), 1.0)
        shares.append(facts.verified and facts.verified.judged)
    assert shares == [1.0, 0.0]
    assert (len(judged.notices), "0%" in late.notices[0]) == (0, True)


@needs_htp
@pytest.mark.usefixtures("planted")
def test_wrong_op_of_a_loop_is_an_error_that_names_it() -> None:
    model = loop_model()
    inputs = [(tensor.name, tensor.shape, tensor.dtype) for tensor in model.graphs["main_body"].inputs]

    def body(graph: Graph, p: Tensor, i: Tensor, n: Tensor, f: Tensor) -> list[Tensor]:
        power, angle = binary(graph, MULTIPLY, p, f, "power"), Tensor("angle", p.shape, p.dtype)
        graph.append(
            make_op(graph, "ElementWiseUnary", [power], [angle], {"operation": u32(ATAN)}, name="op")
        )
        return [angle, binary(graph, ADD, i, static("one", np.int32([1])), "j")]

    del model.graphs["main_body"]
    model.add_graph(graph_of("main_body", inputs, body))
    feeds = {"x": np.full(3, 50000, "f4"), "n": np.full(1, 1, "i4"), "f": np.ones(3, "f4")}
    (problem,) = prepare_all(model, ["sm8650"], verify=feeds).problems
    assert problem.node == "op"


@needs_htp
def test_places_of_equal_values_are_in_any_order() -> None:
    graph = Graph("g")
    source = graph.add_input(Tensor("x", (1, 8), dt.FLOAT32))
    values, places = Tensor("values", (1, 4), dt.FLOAT32), Tensor("places", (1, 4), dt.UINT32)
    graph.append(make_op(graph, "TopK", [source], [values, places], {"k": u32(4)}, name="best"))
    for result in (values, places):
        graph.add_output(result)
    feeds = {"x": np.float32([[5, 1, 5, 1, 5, 0, 5, 2]])}
    prepared = prepare_all(Model({"g": graph}), ["sm8650"], verify=feeds)
    (facts,) = cache_provenance.read(prepared.model).values()
    assert (prepared.problems, facts.verified and facts.verified.judged) == ((), 1.0)


@needs_htp
def test_unverified_cache_is_verified_when_it_is_kept() -> None:
    model = prepare_all(cnn(quantized=True), ["sm8650"], verify=False).model
    assert cache_provenance.read(model)[NAME].verified is None
    again = prepare_all(model, ["sm8650"])
    assert again.kept == ("sm8650",)
    assert cache_provenance.read(again.model)[NAME].verified is not None


@needs_htp
def test_kept_cache_is_verified_on_a_sample_and_where_it_was_not_whole() -> None:
    model = prepared_cnn("sm8650")
    facts = cache_provenance.read(model)[NAME]
    assert facts.verified is not None
    part = replace(facts, verified=replace(facts.verified, share=0.5, outputs={}))
    cache_provenance.write(model, {NAME: part})
    whole = cache_provenance.read(prepare_all(model, ["sm8650"]).model)[NAME].verified
    again = prepare_all(model, ["sm8650"], verify=seeded(model.main))
    sampled = cache_provenance.read(again.model)[NAME].verified
    assert whole is not None
    assert sampled is not None
    assert (again.kept, whole.share, whole.inputs, sampled.inputs) == (("sm8650",), 1.0, "seeded", "samples")


def test_seeded_integers_are_within_the_tables_that_they_index() -> None:
    graph = Graph("g")
    indices, mask = (
        graph.add_input(Tensor("i", (64,), dt.INT32)),
        graph.add_input(Tensor("m", (64,), dt.INT32)),
    )
    table, rows = static("t", np.zeros((5, 3), "f4")), Tensor("y", (64, 3), dt.FLOAT32)
    graph.append(make_op(graph, "Gather", [table, indices], [rows], {"axis": i32(0)}, name="gather"))
    feeds = seeded(graph)
    assert (feeds["i"].max(), feeds["m"].max()) == (4, 1)
    assert mask.name in feeds
