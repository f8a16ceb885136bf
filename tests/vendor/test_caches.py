"""Caches in files that the vendor's library wrote: shown in full, judged, and run."""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.support.htp_models import needs_htp
from tests.support.running import run_htp
from xdlc.cli.cache_records import cache_lines, table_lines
from xdlc.container import load
from xdlc.content.cache_records import cache_records, cache_table
from xdlc.runtime.htp.cache_verdict import verdicts
from xdlc.runtime.htp.session import HtpSession

pytestmark = pytest.mark.vendor


@pytest.fixture(scope="module")
def folder() -> Path:
    """The folder of caches among the vendor-made samples."""
    check = os.environ.get("XDLC_VENDOR_CHECK")
    given = os.environ.get("XDLC_SAMPLES") or (check and Path(check).parent.parent / "samples" / "dlc")
    if not given:
        pytest.skip("needs the vendor-made samples: set XDLC_SAMPLES to their folder")
    found = Path(given) / "caches"
    if not found.is_dir():
        pytest.fail(f"there is no folder {found}")
    return found


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cache_two_graphs_57", ["graph q_u8_pt", "graph q_u16_pc_s8", "ufixed16  1x16x16x8"]),
        ("model_plus_caches_43_57", ["htp.cache.sm8550.0", "v75, VTCM 4 MB", "scale 0.0156863 offset 0"]),
        ("multisoc_43_57_ort", ["htp.shared.weights.", "28.0 KiB", "x  float32  1x3x16x16"]),
    ],
)
def test_they_are_shown_in_full(folder: Path, name: str, words: list[str]) -> None:
    model = load(folder / f"{name}.dlc")
    table = cache_table(model, ["sm8450", "sm8550", "sm8650"], "2.51")
    shown = "\n".join([*cache_lines(cache_records(model)), *table_lines(table)])
    for word in ("v2.51.0.260929181845", "2026-11-20", "binary 4.0.6", "accepted: v69 or lower", *words):
        assert word in shown


def test_rules_hold_for_them(folder: Path) -> None:
    model = load(folder / "model_plus_caches_43_57.dlc")
    assert [row.usable for row in verdicts(model, "sm8550", sdk="2.51")] == [True, False]
    assert [row.usable for row in verdicts(model, "sm8650", sdk="2.51")] == [True, True]
    strict = verdicts(model, "sm8650", sdk="2.51", mode="strict")
    assert "found 4 MB, accepted 8 MB" in str(strict[1].reason)
    assert "hash is unknown" in str(strict[1].unjudged[0])


@needs_htp
def test_they_run_like_the_model_beside_them(folder: Path) -> None:
    model = load(folder / "model_plus_caches_43_57.dlc")
    x = np.random.default_rng(1).uniform(-1, 1, model.main.inputs[0].shape).astype("float32")
    for soc in ("sm8550", "sm8650"):
        with HtpSession(model, soc, validate=True) as session:
            assert session.record == f"htp.cache.{soc}.0"
            given = session.run({"x": x}, native=True)
        wanted = run_htp(model, {"x": x}, soc=soc, native=True)
        assert np.array_equal(given["z"], wanted["z"])
