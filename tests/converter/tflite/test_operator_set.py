"""Operators of TensorFlow Lite on recorded models of one operator each."""

from pathlib import Path

import pytest

from tests.converter.operator_sets import cases, verdict

REFUSED: frozenset[str] = frozenset()
"""Cases that may be refused: no other may."""


@pytest.mark.corpus
def test_each_operator_computes_what_was_recorded(corpus: Path, tmp_path: Path):
    archive = corpus / "tflite_ops_dev.tar.xz"
    if not archive.is_file():
        pytest.skip(f"needs {archive.name} in the corpus")
    found = {case.name: verdict(case) for case in cases(archive, tmp_path)}
    wrong = {name: text for name, text in found.items() if text not in ("right", "refused")}
    assert not wrong
    assert {name for name, text in found.items() if text == "refused"} <= REFUSED
