"""Loops from the command line: unrolled, kept, run, ended."""

import inspect
from pathlib import Path

import numpy as np
import onnx
import pytest

import xdlc
from tests.support.commands import invoke
from xdlc.cli.tools import net_run, onnx_to_dlc

LOOP = """<ir_version: 8, opset_import: ["" : 17]>
g (float[3] x) => (float[3] y) <int64 n = {%d}, bool yes = {1}> {
    y = Loop (n, yes, x) <body = b (int64 i, bool go, float[3] v) => (bool on, float[3] w) {
        on = Identity(go)
        w = Neg(v)
    }>
}"""


def converted(folder: Path, count: int, *words: object) -> Path:
    onnx.save(onnx.parser.parse_model(LOOP % count), folder / "m.onnx")
    invoke(onnx_to_dlc, "-i", folder / "m.onnx", *words)
    return folder / "m.dlc"


@pytest.fixture
def listing(tmp_path: Path) -> Path:
    np.array([1, -2, 3], np.float32).tofile(tmp_path / "x.raw")
    (tmp_path / "list.txt").write_text(f"{tmp_path / 'x.raw'}\n")
    return tmp_path / "list.txt"


def test_loops_are_unrolled_up_to_a_number(tmp_path: Path) -> None:
    assert inspect.signature(xdlc.convert).parameters["unroll_loops"].default == 16
    assert len(xdlc.load(converted(tmp_path, 16)).graphs) == 1
    assert len(xdlc.load(converted(tmp_path, 17)).graphs) == 3
    assert len(xdlc.load(converted(tmp_path, 4, "--unroll_loops", 0)).graphs) == 3
    assert (
        "error[XD200]: --unroll_loops: -1"
        in invoke(onnx_to_dlc, "-i", tmp_path / "m.onnx", "--unroll_loops", -1, code=2).stderr
    )


def test_a_loop_runs_as_long_as_it_may(tmp_path: Path, listing: Path) -> None:
    words = ("--input_list", listing, "--output_dir", tmp_path / "out")
    path = converted(tmp_path, 21)
    invoke(net_run, "--container", path, *words, "--loop_timeout", 1)
    assert np.fromfile(tmp_path / "out/Result_0/y.raw", np.float32).tolist() == [-1, 2, -3]
    result = invoke(net_run, "--container", path, *words, "--loop_timeout", 60)
    assert "the largest is 15 s" in result.stderr
    path = converted(tmp_path, 2**60)
    result = invoke(net_run, "--container", path, *words, "--loop_timeout", 0.2, code=7)
    assert "graph 'g': op 'y' (While): the loop did not end after 0.2 s" in result.stderr
    assert "fix: raise --loop_timeout to at most" in result.stderr
    assert (
        "loop_timeout is 0.0"
        in invoke(net_run, "--container", path, *words, "--loop_timeout", 0, code=2).stderr
    )
