"""HTP computes ops that it lacks, or computes wrongly, by other forms."""

import numpy as np
import pytest

from tests.support.htp_models import needs_htp
from tests.support.missing_ops import CASES
from tests.support.running import run, run_htp
from xdlc.ir import Graph, Tensor, make_op, static

pytestmark = [pytest.mark.vendor, needs_htp]
BATCHES = [list(CASES)[start : start + 12] for start in range(0, len(CASES), 12)]
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
            params = {
                key: static("", param.numpy()) if isinstance(param, Tensor) else param
                for key, param in op.params.items()
            }
            inputs, outputs = ([copy(tensor) for tensor in tensors] for tensors in (op.inputs, op.outputs))
            made = make_op(
                whole, op.type, inputs, outputs, params, name=f"{name} {op.name}", package=op.package
            )
            whole.append(made)
        for tensor in graph.outputs:
            whole.add_output(copy(tensor))
    return whole, feeds


@pytest.mark.parametrize("names", BATCHES, ids=lambda names: names[0])
def test_emulation_computes_what_the_host_does(names):
    graph, feeds = joined(names)
    expected, results = run(graph, feeds), run_htp(graph, feeds)
    errors = {
        name: np.linalg.norm(results[name] - value) / np.linalg.norm(value)
        for name, value in expected.items()
    }
    assert {name: error for name, error in errors.items() if not error <= 5e-3} == {}
