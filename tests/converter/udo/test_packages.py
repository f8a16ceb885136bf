"""One op package for all native ops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.support.custom_ops import converted, onnx_model
from xdlc.errors import UsageError

MODEL = onnx_model(
    [helper.make_node("Relu", ["x"], ["m"]), helper.make_node("Det", ["m"], ["y"])],
    {"x": (np.float32, [1, 2, 2])},
    {"y": (np.float32, [1])},
)


def test_native_ops_get_the_package_and_a_notice_tells_what_that_means(tmp_path: Path) -> None:
    notices: list[str] = []
    model = converted(tmp_path, MODEL, package_name="My.Pkg", notify=notices.append)
    assert [op.package for op in model.main.ops] == ["My.Pkg", "xdlc"]
    assert len(notices) == 1
    assert "1 op(s)" in notices[0]
    assert "'My.Pkg'" in notices[0]


def test_the_package_that_they_have_is_no_news(tmp_path: Path) -> None:
    notices: list[str] = []
    model = converted(tmp_path, MODEL, package_name="qti.aisw", notify=notices.append)
    assert ([op.package for op in model.main.ops], notices) == (["qti.aisw", "xdlc"], [])


@pytest.mark.parametrize("name", ["", "1a", "a b", "a..b", "ä", "a.", "x" * 200, "xdlc", "snpe"])
def test_names_that_are_none_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="package_name is"):
        converted(tmp_path, MODEL, package_name=name)
