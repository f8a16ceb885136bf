"""Recipes for raw files run as they stand and write what tools read."""

from pathlib import Path

import numpy
import pytest

from xdlc.container.metadata import recipes
from xdlc.ir import AxisScaleOffset, Encoding, ScaleOffset, Tensor
from xdlc.ir import dtype as dt

QUANTIZED = ScaleOffset(0.1, -100)


@pytest.mark.parametrize(
    ("dtype", "encoding"),
    [
        (dt.FLOAT32, None),
        (dt.INT64, None),
        (dt.BOOL8, None),
        (dt.FLOAT16, None),
        (dt.UFIXED8, QUANTIZED),
        (dt.SFIXED8, ScaleOffset(0.2, 0, 4)),
        (dt.UFIXED16, ScaleOffset(0.001, -30000)),
    ],
)
def test_written_and_read_back(
    dtype: dt.DType, encoding: Encoding | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tensor = Tensor('odd "name"', (2, 3), dtype, encoding)
    array = numpy.array([[0, 1, 2], [3, 1, 0]])
    written, read = recipes(tensor), recipes(tensor, reads=True)
    assert list(read) == (["float32"] if dtype is dt.FLOAT32 else ["float32", "native"])
    counts = dtype in (dt.INT64, dt.BOOL8)
    assert list(written) == (list(reversed(read)) if counts else list(read))  # the default first
    written_array = array.astype(dtype.numpy) if encoding is None else array.astype("f4")
    for form, code in written.items():
        exec(code, {"numpy": numpy, "array": written_array})
        path = tmp_path / 'odd "name".raw'
        assert path.stat().st_size == (4 * 6 if form == "float32" else tensor.nbytes)
        if form == "native":
            path.rename(tmp_path / 'odd "name"_native.raw')
        found = eval(read[form], {"numpy": numpy})
        if dtype.bits == 8 and encoding is not None and form == "native" and encoding.bits == 4:
            written_array = written_array.clip(-8 * 0.2, 7 * 0.2)
        numpy.testing.assert_allclose(found, written_array, atol=0.1)


def test_no_recipe_for_what_numpy_cannot_write() -> None:
    for tensor in (
        Tensor("x", (2,), dt.BFLOAT16),
        Tensor("x", (2,), dt.SFIXED4, ScaleOffset(1.0, 0)),
        Tensor("x", (2,), dt.SFIXED8, AxisScaleOffset(0, (1.0, 2.0))),
        Tensor("x", (2,), dt.UFIXED8),
    ):
        assert list(recipes(tensor)) == ["float32"]


def test_open_extents_are_read_from_the_file() -> None:
    tensor = Tensor("x", (1, 3), dt.FLOAT32, dynamic_axes=(0,))
    assert recipes(tensor, reads=True)["float32"].endswith(".reshape((-1, 3))")
    assert (
        "reshape" not in recipes(Tensor("x", (1, 1), dt.FLOAT32, dynamic_axes=(0, 1)), reads=True)["float32"]
    )
