"""Each pass on a graph of its golden file: text in, text out, and the numbers stay.

A golden file holds the graph before the pass, a line ``====``, and the graph after it.  To take up a
wanted change, delete the second half and run with XDLC_UPDATE_GOLDEN=1.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from xdlc import passes, runtime
from xdlc.errors import ModelError
from xdlc.ir import parse, to_text

FOLDER = Path(__file__).parent / "golden"
MARK = "\n====\n"


def feeds_of(graph):
    rng = np.random.default_rng(0)
    return {
        tensor.name: np.abs(rng.standard_normal(tensor.shape)).astype(tensor.dtype.numpy)
        if tensor.dtype.is_integer
        else rng.standard_normal(tensor.shape).astype(np.float32)
        for tensor in graph.inputs
    }


def results(graph, feeds, native):
    shaped = {tensor.name: feeds[tensor.name].reshape(tensor.shape) for tensor in graph.inputs}
    return runtime.run(graph, shaped, native=native)


ALL = (*passes.CONVERTER, *passes.HTP)


@pytest.mark.parametrize("entry", ALL, ids=lambda entry: entry.name)
def test_pass(entry):
    path = FOLDER / f"{entry.name}.txt"
    before, _, expected = path.read_text().partition(MARK)
    graph = parse(before).main
    feeds, native = feeds_of(graph), isinstance(entry, passes.ReinterpretIo)
    numbers = results(graph, feeds, native)
    assert entry.apply(graph)
    passes.run(graph, [entry])
    graph.verify()
    for name, values in results(graph, feeds, native).items():
        np.testing.assert_allclose(values, numbers[name], rtol=1e-5, atol=1e-6)
    found = to_text(graph, data="inline").rstrip()
    if os.environ.get("XDLC_UPDATE_GOLDEN"):
        path.write_text(before.rstrip() + MARK + found + "\n")
    else:
        assert found == expected.rstrip()


def test_every_golden_file_has_its_pass():
    assert {path.stem for path in FOLDER.glob("*.txt")} == {entry.name for entry in ALL}


def test_passes_that_never_settle_are_an_error():
    class Restless:
        name = "restless"

        def apply(self, graph):
            return True

    graph = parse((FOLDER / "prune.txt").read_text().partition(MARK)[0]).main
    with pytest.raises(ModelError, match="restless do not settle"):
        passes.run(graph, [Restless()])
