"""One-op graphs, run on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from xdlc.ir import NATIVE_PACKAGE, Graph, Scalar, Tensor, b8, f32, i32, make_op, static, u32
from xdlc.ir.dtype import BY_NAME, from_numpy
from xdlc.runtime.cpu import CpuSession


def _param(key: str, value: Any) -> Any:
    if isinstance(value, Scalar | Tensor):
        return value
    if isinstance(value, bool):
        return b8(value)
    if isinstance(value, float):
        return f32(value)
    if isinstance(value, int):
        return i32(value) if value < 0 or key == "radius" else u32(value)
    array = np.asarray(value)
    return static("param", array.astype(np.int32 if key == "ranges" else np.uint32))


class OneOp:
    """Builds graphs of one op; arrays in ``static`` positions become weights."""

    def graph(
        self,
        type: str,
        inputs: Sequence[np.ndarray | Tensor | None],
        outputs: Sequence[Sequence[int] | tuple[Sequence[int], str]],
        params: Mapping[str, Any] | None = None,
        *,
        static_inputs: Sequence[int] = (),
        package: str = NATIVE_PACKAGE,
    ) -> Graph:
        graph = Graph("one")
        sources: list[Tensor | None] = []
        for index, value in enumerate(inputs):
            if value is None:
                sources.append(None)
            elif isinstance(value, Tensor):
                sources.append(value if value.is_static else graph.add_input(value))
            elif index in static_inputs:
                sources.append(static(f"w{index}", value))
            else:
                sources.append(graph.add_input(Tensor(f"x{index}", value.shape, from_numpy(value.dtype))))
        results = []
        for index, spec in enumerate(outputs):
            named = len(spec) == 2 and isinstance(spec[1], str)
            shape, dtype = spec if named else (spec, "float32")
            results.append(Tensor(f"y{index}", tuple(shape), BY_NAME[str(dtype)]))
        given = {key: _param(key, value) for key, value in (params or {}).items()}
        graph.append(make_op(graph, type, sources, results, given, name="op", package=package))
        for tensor in results:
            graph.add_output(tensor)
        return graph

    def __call__(self, type: str, inputs: Any, outputs: Any, params: Any = None, **options: Any) -> Any:
        """Return the outputs of the op, one array or a list of several."""
        graph = self.graph(type, inputs, outputs, params, **options)
        fed = {
            f"x{index}": value
            for index, value in enumerate(inputs)
            if isinstance(value, np.ndarray) and f"x{index}" in graph.tensors
        }
        results = list(CpuSession(graph, threads=1).run(fed).values())
        return results[0] if len(results) == 1 else results


@pytest.fixture(scope="session")
def one_op() -> OneOp:
    return OneOp()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
