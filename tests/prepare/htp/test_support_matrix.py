from pathlib import Path

import pytest

from tests.support.htp_models import cnn, needs_htp
from xdlc.api import support_matrix
from xdlc.errors import BackendError
from xdlc.prepare.htp import support_matrix as module
from xdlc.prepare.htp.support_query import CpuFallback, SupportReport
from xdlc.runtime.htp import library


def test_each_library_and_soc_has_a_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folders = [tmp_path / "old", tmp_path / "missing", tmp_path / "new"]

    def build() -> str:
        folder = library.named_folder()
        if folder == str(folders[1]):
            raise BackendError("there is no library")
        return f"build of {Path(folder or '').name}"

    def query(_model: object, _path: object, soc: str, **_: object) -> SupportReport:
        report = SupportReport()
        if library.named_folder() == str(folders[0]) and soc == "sm8550":
            report.unsupported["cnn", "y"] = CpuFallback("cnn", "y", "Relu", "not known")
        return report

    monkeypatch.setattr(module, "build_id", build)
    monkeypatch.setattr(module, "query_support", query)
    monkeypatch.delenv(library.VARIABLE, raising=False)
    matrix = support_matrix(cnn(quantized=True), folders, ["SM8550", "sm8650"])
    assert [(row.build, row.soc, len(row.unsupported), bool(row.problems)) for row in matrix] == [
        ("build of old", "sm8550", 1, False),
        ("build of old", "sm8650", 0, False),
        (None, None, 0, True),
        ("build of new", "sm8550", 0, False),
        ("build of new", "sm8650", 0, False),
    ]
    assert library.named_folder() is None


@needs_htp
def test_library_in_use_supports_a_network() -> None:
    (row,) = support_matrix(cnn(quantized=True), socs=["sm8650"])
    assert row.build is not None
    assert row.build.startswith("v")
    assert (row.ops > 0, row.unsupported, row.problems) == (True, (), ())
