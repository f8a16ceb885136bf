from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xdlc
from xdlc import api
from xdlc.errors import UsageError


def test_unknown_options_are_named_with_what_is_near(models: Any) -> None:
    path = models.save(models.cnn())
    with pytest.raises(UsageError, match="convert has no option 'input_dim'") as caught:
        xdlc.convert(path, input_dim={"x": (1, 3, 16, 16)})
    assert "input_dims" in str(caught.value)
    with pytest.raises(UsageError, match="quantize has no option 'act_bw'") as caught:
        xdlc.quantize(xdlc.convert(path), [], act_bw=8)
    assert "nearest: act_bitwidth" in str(caught.value)


def test_arrays_come_by_name(models: Any) -> None:
    path = models.save(models.cnn())
    model, array = xdlc.convert(path), np.zeros((1, 3, 16, 16), np.float32)
    with pytest.raises(UsageError, match="feeds is of type ndarray"):
        xdlc.run(model, array)
    with pytest.raises(UsageError, match="samples is one mapping"):
        xdlc.quantize(model, {"x": array})
    with pytest.raises(UsageError, match="calibration sample 1 is of type str"):
        xdlc.quantize(model, iter([{"x": array}, "array"]))


@pytest.mark.parametrize("shape", ["1,3,16,16", (1, 3, 16, 16.0), 5, (1, 3, None, 16), (1, 3, 16, 2**32)])
def test_input_dims_are_whole_numbers(models: Any, shape: Any) -> None:
    with pytest.raises(UsageError, match="input_dims gives 'x' the shape"):
        xdlc.convert(models.save(models.cnn()), input_dims={"x": shape})


def test_a_string_is_no_list_of_names() -> None:
    with pytest.raises(UsageError, match="operators is the string 'Conv'") as caught:
        api.draft_udo_config("m.onnx", operators="Conv")
    assert caught.value.fix == "give a list: operators=['Conv']"
