"""Progress of builds."""

from __future__ import annotations

from pathlib import Path

from xdlc.ir.files import kept_apart
from xdlc.llm.genai import CONFIG
from xdlc.llm.progress import Progress


def test_the_state_of_a_build_is_read_and_replaced_in_one_call(tmp_path: Path) -> None:
    with kept_apart(()):
        for _ in range(2):
            Progress(tmp_path, "same").note(tmp_path / "soc" / "a.bin", "checked")
        assert Progress(tmp_path, "same").checks == ("checked",)


def test_another_build_removes_the_files_of_a_bundle_alone(tmp_path: Path) -> None:
    for place in ("soc", "model"):
        (tmp_path / place).mkdir()
        (tmp_path / place / CONFIG).write_text("{}")
    (tmp_path / "soc" / "decoder_1_of_1.bin").write_bytes(b"")
    Progress(tmp_path, "new")
    assert [path.parent.name for path in tmp_path.glob("*/*")] == ["model"]
