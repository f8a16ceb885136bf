"""Arrays that do not fit an input: each printed fix is followed and works."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.conftest import Models
from tests.support.htp_models import cnn, needs_htp
from xdlc.errors import UsageError
from xdlc.ir.quantization import to_quantized
from xdlc.runtime.array_files import shape_fix

X = np.random.default_rng(0).uniform(-1, 1, (1, 3, 16, 16)).astype("float32")


def fixed(error: UsageError, array: Any) -> Any:
    """Return what the expression in a fix makes of an array."""
    code = str(error.fix).removeprefix("give ").removeprefix("save ").partition(", or ")[0]
    return eval(code, {"array": array})


@pytest.mark.parametrize("verb", ["run", "quantize"])
@pytest.mark.parametrize(
    ("array", "is_permuted"),
    [
        (X.transpose(0, 2, 3, 1), True),
        (X[0].transpose(1, 2, 0), True),
        (X[0], False),
        (X.reshape(-1), False),
        (X.astype("float16").astype("int8"), False),
    ],
)
def test_the_fix_of_an_array_makes_it_fit(models: Models, verb: str, array: Any, is_permuted: bool) -> None:
    model = xdlc.convert(models.save(models.cnn()))
    call = (lambda x: xdlc.run(model, {"x": x})) if verb == "run" else lambda x: xdlc.quantize(model, [x])
    with pytest.raises(UsageError) as caught:
        call(array)
    mended = fixed(caught.value, array)
    assert ("transpose" in str(caught.value.fix), "another order" in caught.value.problem) == (
        is_permuted,
    ) * 2
    np.testing.assert_array_equal(mended, X if array.dtype != np.int8 else array)
    call(mended)


def test_an_array_of_another_layout_fits_a_model_converted_so(models: Models) -> None:
    path = models.save(models.cnn())
    with pytest.raises(UsageError, match="another order") as caught:
        xdlc.run(xdlc.convert(path), {"x": X.transpose(0, 2, 3, 1)})
    option, name, layout = str(caught.value.fix).rpartition("convert with ")[2].split()
    model = xdlc.convert(path, **{option: {name: layout}})  # type: ignore[arg-type]
    got = xdlc.run(model, {"x": X.transpose(0, 2, 3, 1)})
    for output, array in xdlc.run(xdlc.convert(path), {"x": X}).items():
        np.testing.assert_allclose(got[output], array, atol=1e-6)


@pytest.mark.parametrize("runtime", ["cpu", pytest.param("htp", marks=needs_htp)])
def test_a_batch_runs_item_by_item_or_with_a_model_of_that_batch(models: Models, runtime: Any) -> None:
    path = models.save(models.cnn())
    both = np.concatenate([X, -X])
    model = xdlc.convert(path)
    with pytest.raises(UsageError) as caught:
        xdlc.run(model, {"x": both}, runtime)
    assert "reshape" not in str(caught.value)
    fix = str(caught.value.fix)
    assert fix.startswith("give array[i:i + 1] for each i")
    assert "Session.run_batch" in fix
    assert "a batch of 2" in fix
    with xdlc.Session(model, runtime) as session:
        rows = session.run_batch([{"x": both[i : i + 1]} for i in range(2)])
    whole = xdlc.run(xdlc.convert(path, batch=2), {"x": both})
    for name, array in whole.items():
        found = np.concatenate([row[name] for row in rows])
        np.testing.assert_allclose(found, array, rtol=1e-2, atol=1e-2 * np.abs(array).max())


def test_no_reshape_where_the_number_of_elements_differs(models: Models) -> None:
    model = xdlc.convert(models.save(models.cnn()))
    for array in (X[:, :, :4], X[:, :1], X[0, 0], np.zeros(())):
        with pytest.raises(UsageError) as caught:
            xdlc.run(model, {"x": array})
        assert caught.value.fix == "give an array of shape [1, 3, 16, 16]"


def test_files_of_another_order_are_refused_with_the_fix(models: Models, tmp_path: Path) -> None:
    model = xdlc.convert(models.save(models.cnn()))
    rows = np.random.default_rng(1).uniform(-1, 1, (3, 16, 16, 3)).astype("float32")
    for array in (rows, rows[:, None]):
        np.save(tmp_path / "samples.npy", array)
        with pytest.raises(UsageError) as caught:
            xdlc.quantize(model, tmp_path / "samples.npy")
        np.save(tmp_path / "samples.npy", fixed(caught.value, array))
        xdlc.quantize(model, tmp_path / "samples.npy")
    np.save(tmp_path / "one.npy", rows[0])
    (tmp_path / "list.txt").write_text(f"{tmp_path / 'one.npy'}\n")
    with pytest.raises(UsageError) as caught:
        xdlc.quantize(model, tmp_path / "list.txt")
    np.save(tmp_path / "one.npy", fixed(caught.value, rows[0]))
    xdlc.quantize(model, tmp_path / "list.txt")


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("runtime", ["cpu", pytest.param("htp", marks=needs_htp)])
def test_integers_of_the_stored_type_are_stored_values_and_others_an_error(
    runtime: Any, bits: int, tmp_path: Path
) -> None:
    from xdlc.runtime.input_list import read_input_list

    source = cnn(quantized=False)
    (tensor,) = source.main.inputs
    x = np.random.default_rng(0).uniform(-1, 1, tensor.shape).astype("float32")
    model = xdlc.quantize(source, [x, -x], act_bitwidth=bits)
    (tensor,) = model.main.inputs
    stored = to_quantized(x, tensor)
    np.save(tmp_path / "x.npy", stored)
    (tmp_path / "list.txt").write_text(f"{tmp_path / 'x.npy'}\n")
    (sample,) = read_input_list(tmp_path / "list.txt", model.main).samples()
    with xdlc.Session(model, runtime) as session:
        wanted = session.run({"x": x})
        for feeds in ({"x": stored}, sample):
            for name, array in session.run(feeds).items():
                np.testing.assert_array_equal(array, wanted[name])
        for other in (stored.astype("int32"), stored.view(f"int{bits}")):
            with pytest.raises(UsageError, match="needs float32 or stored") as caught:
                session.run({"x": other})
            session.run(
                {"x": eval(str(caught.value.fix).partition(" as ")[2].partition(",")[0], {"array": other})}
            )


@pytest.mark.parametrize(("count", "batch"), [(1, 4), (5, 2), (0, 1)])
def test_a_batch_that_holds_no_whole_inputs_is_not_divided(count: int, batch: int) -> None:
    fix = shape_fix((count, 3), (batch, 3))
    assert f"[{batch}, 3]" in fix
    assert "array[" not in fix
    assert ("convert with a batch of" in fix) is (count > 0)
