"""Linked graphs with weights stored once, in the vendor's libraries."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support.htp_models import cnn, needs_htp
from xdlc.container import describe

pytestmark = pytest.mark.vendor


@needs_htp
def test_vendor_reads_compiles_and_runs_linked_graphs(
    vendor_check: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    single, both = tmp_path / "one.dlc", tmp_path / "both.dlc"
    cnn(quantized=True).save(single)
    xdlc.link([single, single], ["prompt", "token"]).save(both)
    sizes = [
        entry.size
        for path in (single, both)
        for entry in describe(path).entries
        if entry.name.endswith(".bin")
    ]
    assert sizes[1] <= sizes[0]
    graphs = {graph["name"]: graph for graph in vendor_check("read", both)["graphs"]}
    alone = vendor_check("read", single)["graphs"][0]
    assert graphs.keys() == {"prompt", "token"}
    for graph in graphs.values():
        assert graph["tensors"] == alone["tensors"]
        assert graph["ops"] == alone["ops"]
    assert vendor_check("compile", both, "--soc", "SM8650", "--out", tmp_path / "context.bin")["ok"]
    x = np.random.default_rng(0).uniform(-1, 1, (1, 8, 8, 4)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    common = ["--soc", "SM8650", "--inputs", tmp_path / "in.npz", "--out", tmp_path / "out.npz", "--float"]
    for name in graphs:
        assert vendor_check("run", both, *common, "--graph", name)["ok"]
        np.testing.assert_allclose(
            np.load(tmp_path / "out.npz")["y"], xdlc.run(single, {"x": x})["y"], atol=0.05
        )
    with xdlc.Session(tmp_path / "context.bin", "htp", graph="token") as session:
        np.testing.assert_allclose(session.run({"x": x})["y"], xdlc.run(single, {"x": x})["y"], atol=0.05)
