"""The document on control flow of NNAPI 1.3: its statements, tried.

Not tried: performance figures of a driver (``ifPerformance``, ``whilePerformance``), which a device alone
has, and the conformance tests of Android.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

import xdlc
from tests.documents.control_flow_nets import WEIGHTS, branches, converted, loop, rnn
from tests.support.control_flow_models import binary, graph_of, model_of
from tests.support.htp_models import needs_htp
from xdlc.cli.tools import graph_prepare, net_run, onnx_to_dlc
from xdlc.errors import BackendError, ConstraintError
from xdlc.ir import Graph, Model, Tensor
from xdlc.ir.dtype import BOOL8, INT32
from xdlc.prepare.htp import PrepareError
from xdlc.runtime import timeout
from xdlc.runtime.htp import library
from xdlc.runtime.htp.cache_verdict import verdicts

ONCE = 1 / 256
"""Tolerance of an iteration in FP16, relative to the largest value."""


def feeds_of(model: Model, sign: int = 1) -> dict[str, Any]:
    shape = model.main.inputs[0].shape
    return {"x": sign * np.random.default_rng(2).uniform(0.1, 1, shape).astype("f4")}


def check_htp(model: Model, sign: int = 1) -> tuple[int, str]:
    """Compare HTP with the CPU; return HTP's number of partitions and notices."""
    notices: list[str] = []
    feeds = feeds_of(model, sign)
    expected = xdlc.run(model, feeds)
    with xdlc.session(model, "htp", soc="sm8650", notify=notices.append) as session:
        found = session.run(feeds)
        partitions = session._engine.partitions  # type: ignore[union-attr]
    for name, array in expected.items():
        assert np.abs(found[name] - array).max() <= ONCE * np.abs(array).max()
        assert found[name].shape == array.shape
    return partitions, "\n".join(notices)


# --------------------------------------------------------------------------- ops and sub-graphs


@pytest.mark.parametrize("length", [1, 5, 9])
def test_a_dynamic_rnn_follows_its_input_without_unrolling(length: int, tmp_path: Path) -> None:
    model = converted(rnn("t"), tmp_path)
    x = np.random.default_rng(3).normal(size=(length, 4, 32)).astype("f4")
    results, state, states = xdlc.run(model, {"x": x}), np.zeros((4, 32), "f4"), []
    for row in x:
        state = np.tanh(state + row @ WEIGHTS)
        states.append(state)
    np.testing.assert_allclose(results["y"], state, atol=1e-5)
    np.testing.assert_allclose(results["all"], states, atol=1e-5)


# --------------------------------------------------------------------------- counters and conditions

COMPARISONS = {
    3: np.equal,
    6: np.greater,
    7: np.greater_equal,
    8: np.less,
    9: np.less_equal,
    14: np.not_equal,
}
ARITHMETIC = {0: np.add, 10: np.maximum, 11: np.minimum, 13: np.multiply, 18: np.subtract}


def _counters() -> Model:
    """Return a graph of arithmetic (INT32) and comparisons (BOOL8) of shape [1]."""

    def main(graph: Graph, a: Tensor, b: Tensor) -> list[Tensor]:
        return [
            *(binary(graph, number, a, b, f"n{number}") for number in ARITHMETIC),
            *(binary(graph, number, a, b, f"b{number}", BOOL8) for number in COMPARISONS),
        ]

    return model_of(graph_of("main", [("a", (1,), INT32), ("b", (1,), INT32)], main))


@pytest.mark.parametrize("runtime", ["cpu", pytest.param("htp", marks=[needs_htp, pytest.mark.slow])])
def test_counters_are_int32_and_conditions_bool8_of_one_element(runtime: str) -> None:
    with xdlc.Session(_counters(), runtime) as session:
        for a, b in ((3, 4), (4, 4), (-7, 2)):
            found = session.run({"a": np.int32([a]), "b": np.int32([b])})
            for number, function in {**ARITHMETIC, **COMPARISONS}.items():
                (array,) = (found[name] for name in (f"n{number}", f"b{number}") if name in found)
                assert array.shape == (1,)
                assert array[0] == function(np.int32(a), np.int32(b))


# --------------------------------------------------------------------------- time-outs


def test_loops_have_a_time_out_of_two_seconds_and_at_most_fifteen() -> None:
    assert (timeout.DEFAULT, timeout.LONGEST) == (2.0, 15.0)


# --------------------------------------------------------------------------- accelerators


def test_a_dry_run_names_what_keeps_each_branch_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    onnx.save(branches(), tmp_path / "m.onnx")
    words = ["-i", str(tmp_path / "m.onnx"), "--dry_run", "--target", "sm8650"]
    result = CliRunner().invoke(onnx_to_dlc.main, words)
    assert result.exit_code == ConstraintError.exit_code
    assert "notice: then branch of 'if': HTP supports all ops" in result.output
    assert "notice: else branch of 'if': not on HTP: 'odd' (Erf): runs on the host only" in result.output
    assert "else branch: 'odd' (Erf)" in " ".join(result.output.split())
    onnx.save(loop(20), tmp_path / "m.onnx")
    result = CliRunner().invoke(onnx_to_dlc.main, words)
    assert result.exit_code == 0, result.output
    assert "notice: body of 'loop': HTP supports all ops" in result.output


@needs_htp
@pytest.mark.slow
def test_a_loop_on_the_accelerator_computes_what_its_unrolled_form_does(tmp_path: Path) -> None:
    x, results, notices = np.random.default_rng(2).uniform(0.1, 1, (20, 4, 32)), [], list[str]()
    for most in (0, 20):
        model = converted(rnn(20), tmp_path, unroll_loops=most)
        with xdlc.Session(model, "htp", soc="sm8650", notify=notices.append) as session:
            results.append(session.run({"x": x.astype("f4")}))
    for name in ("y", "all"):
        np.testing.assert_allclose(results[0][name], results[1][name], atol=2**-10)
    assert "body of 'rnn': the CPU runs 1 Concat" in "\n".join(notices)


@needs_htp
@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1])
def test_branches_run_each_where_it_can(sign: int, tmp_path: Path) -> None:
    partitions, notices = check_htp(converted(branches(), tmp_path), sign)
    assert partitions >= 1
    assert "then branch of 'if': " in notices
    assert "else branch of 'if': the CPU runs 1 Erf ('odd'): runs on the host only" in notices


@needs_htp
@pytest.mark.slow
def test_a_prepared_file_has_the_body_in_its_cache_and_loops_end_in_time(tmp_path: Path) -> None:
    model = converted(loop(10**9), tmp_path)
    model.save(tmp_path / "m.dlc")
    feeds_of(model)["x"].tofile(tmp_path / "x.raw")
    (tmp_path / "list.txt").write_text(f"{tmp_path / 'x.raw'}\n")
    words = ["--input_dlc", tmp_path / "m.dlc", "--output_dlc", tmp_path / "p.dlc", "--htp_socs", "sm8650"]
    result = CliRunner().invoke(graph_prepare.main, [*map(str, words)])
    assert result.exit_code == 0, result.output
    words = ["--input_dlc", tmp_path / "p.dlc", "--check", "sm8650"]
    result = CliRunner().invoke(graph_prepare.main, [*map(str, words)])
    assert (result.exit_code, "sm8650: body of 'loop': HTP supports all ops" in result.output) == (0, True)
    prepared = xdlc.load(tmp_path / "p.dlc")
    assert [tensor.name for tensor in prepared.main.outputs] == ["y"]
    (verdict,) = verdicts(prepared, "sxr1230p")
    assert "fp16" in {finding.rule for finding in verdict.failed}
    (cache,) = prepared.metadata["cacheList"]
    assert [graph["graphName"] for graph in cache["graphs"]] == ["g_loop_body_part0"]
    words = ["--container", tmp_path / "p.dlc", "--input_list", tmp_path / "list.txt", "--runtime", "htp"]
    words += ["--output_dir", tmp_path / "out", "--loop_timeout", 0.3]
    result = CliRunner().invoke(net_run.main, [*map(str, words)])
    assert result.exit_code == BackendError.exit_code, result.output
    assert "op 'loop' (While): the loop did not end after 0.3 s" in result.stderr
    assert "from htp.cache.sm8650.0, 1 partition(s), the rest on the CPU" in result.output


@needs_htp
@pytest.mark.slow
def test_executions_on_the_accelerator_that_overlap_do_not_mix(tmp_path: Path) -> None:
    model = converted(loop(20), tmp_path)
    feeds = [{"x": feeds_of(model)["x"] * scale} for scale in (1, 2, 3)]
    with xdlc.Session(model, "htp", loop_timeout=15) as session:
        alone = [session.run(each)["y"] for each in feeds]
        with ThreadPoolExecutor(3) as pool:
            for _ in range(3):
                together = list(pool.map(lambda each: session.run(each)["y"], feeds))
                assert all(map(np.array_equal, together, alone))


@needs_htp
@pytest.mark.slow
def test_around_loops_all_has_to_be_supported_without_partition(tmp_path: Path) -> None:
    proto = loop(20)
    proto.graph.node[0].output[0] = "before"
    proto.graph.node.append(helper.make_node("Erf", ["before"], ["y"], name="odd"))
    model = converted(proto, tmp_path)
    with pytest.raises(PrepareError, match=r"op 'odd' \(Erf\): runs on the host only"):
        xdlc.prepare(model, ["sm8650"])
    assert xdlc.prepare(model, ["sm8650"], partition=True).metadata["cacheList"]
