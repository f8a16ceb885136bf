"""Users' operations in models in parts: beside HTP caches, and in sections."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.udo.udo_graphs import between_relus
from tests.support.htp_models import needs_htp
from tests.support.section_models import on_cpu
from xdlc import api
from xdlc.errors import UnsupportedOp, UsageError
from xdlc.ir import Model, f32
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.htp.partition_schedule import partition_graph
from xdlc.runtime.htp.session import emulated_partitions
from xdlc.runtime.htp.unsupported_op import is_host_only
from xdlc.runtime.udo import Kernels

X = np.float32([[-1, 2, 3], [4, -5, 6]])
EXPECTED = np.maximum(X, 0) * 3


class OnCpu:
    """Runs the parts of a cache on the CPU."""

    def __init__(self, model: Model, parts: Mapping[str, list[str]]) -> None:
        self._sessions = {
            name: CpuSession(partition_graph(model.main, ops, name)) for name, ops in parts.items()
        }

    def run(self, feeds: Mapping[str, Any], *, native: bool, graph: str) -> dict[str, Any]:
        return self._sessions[graph].run(feeds, native=native)


@pytest.fixture
def model() -> Model:
    return Model({"graph": between_relus("Scale", {"factor": f32(3)})})


def test_the_htp_gets_no_users_ops(model: Model) -> None:
    assert [is_host_only(op) for op in model.main.ops] == [False, True, False]


def test_what_is_left_to_the_cpu_runs_with_kernels(model: Model, python_file: Path) -> None:
    first, _, last = (op.name for op in model.main.ops)
    parts = {"a": [first], "b": [last]}
    emulated = emulated_partitions(model, {model.main.name: parts}, OnCpu(model, parts))
    with Kernels(python_file) as kernels:
        session = CpuSession(model, accelerator=emulated, kernels=kernels)
        np.testing.assert_array_equal(session.run({"x": X})["y"], EXPECTED)
    with pytest.raises(UnsupportedOp, match="there is no kernel for Math::Scale"):
        CpuSession(model, accelerator=emulated)


@needs_htp
def test_what_the_htp_refuses_runs_with_kernels_beside_its_emulation(model: Model, python_file: Path) -> None:
    notices: list[str] = []
    options = {"cpu_fallback": True, "udo_package_path": python_file, "notify": notices.append}
    with api.Session(model, "htp", soc="sm8650", **options) as session:
        got = session.run({"x": X})["y"]
        session.close()
        with pytest.raises(UsageError, match="closed"):
            session.run({"x": X})
    np.testing.assert_allclose(got, EXPECTED, rtol=1e-3)
    assert any("the CPU runs 1 Scale ('custom')" in line for line in notices)


def test_sections_run_with_kernels(model: Model, python_file: Path) -> None:
    divided = on_cpu(model, [1, 2])
    with api.Session(divided, "aip", udo_package_path=python_file) as session:
        np.testing.assert_array_equal(session.run({"x": X})["y"], EXPECTED)
    with pytest.raises(UsageError, match="closed"):
        session.run({"x": X})
    with pytest.raises(UnsupportedOp, match="there is no kernel for Math::Scale"):
        api.run(divided, {"x": X}, runtime="aip")
