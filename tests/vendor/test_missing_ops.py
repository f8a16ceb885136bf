"""HTP computes ops that it does not support, and some that it computes wrongly, by the forms in their place."""

from __future__ import annotations

import numpy as np
import pytest

from tests.htp_models import needs_htp
from tests.missing_ops import CASES
from tests.running import run, run_htp
from xdlc.ir import Graph, Tensor

pytestmark = [pytest.mark.vendor, needs_htp]
BATCH = 12
"""Cases in one network: a run of HTP takes longer than all they compute."""


def joined(names: list[str]) -> tuple[Graph, dict[str, np.ndarray]]:
    """Return some cases side by side in one graph."""
    whole, feeds = Graph("cases"), {}
    for name in names:
        graph, own = CASES[name]()
        copies: dict[Tensor, Tensor] = {}

        def copy(tensor: Tensor, name: str = name, copies: dict[Tensor, Tensor] = copies) -> Tensor:
            if tensor not in copies:
                held = (tensor.shape, tensor.dtype, tensor.encoding, tensor.data, tensor.role)
                copies[tensor] = Tensor(f"{name} {tensor.name}", *held)
            return copies[tensor]

        for tensor in graph.inputs:
            feeds[whole.add_input(copy(tensor)).name] = own[tensor.name]
        for op in graph.ops:
            whole.append(op.twin(copy, name=f"{name} {op.name}"))
        for tensor in graph.outputs:
            whole.add_output(copy(tensor))
    return whole, feeds


@pytest.mark.parametrize("start", range(0, len(CASES), BATCH))
def test_emulation_computes_what_the_host_does(start):
    names = list(CASES)[start : start + BATCH]
    graph, feeds = joined(names)
    expected, results = run(graph, feeds), run_htp(graph, feeds)
    errors = {
        name: np.linalg.norm(results[name] - wanted) / np.linalg.norm(wanted) for name, wanted in expected.items()
    }
    assert {name: error for name, error in errors.items() if not error <= 5e-3} == {}
