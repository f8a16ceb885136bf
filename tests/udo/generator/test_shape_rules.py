"""Shapes from texts of a configuration: library and converter agree."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest

from tests.udo.generator.configs import op, operand, package
from xdlc.errors import BackendError, ConstraintError
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, UFIXED8, UINT8, UINT16, DType
from xdlc.opdefs import Collection, read_valid
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.shape_text import infer
from xdlc.runtime.udo.kernels import Kernels
from xdlc.udo.generator import generate
from xdlc.udo.generator.build_context import package_view

TOLD = {
    "Same": "[n, h, w, c]",
    "Fewer": "[c, n]",
    "Halves": "[n, h / 2 * 2, (w - 3) / 2 + 1, -1 + c]",
    "Floors": "[h // 2 * 2, w % 3, ceil(w / 2), floor(h / 3), max(h, w, 2), min(h, c), abs(h - w - 9)]",
    "Params": "[n * k, h - less, 7]",
    "Dims": "[x.dim[0], in[0].dim[-1], shape(x)[1], dim(b, 0), rank(x) * 2, size(b)]",
    "Whole": "shape of x",
    "Alike": "same as in[0]",
    "Both": "broadcast(x, b)",
}
UNTOLD = {
    "Nothing": "",
    "Words": "as the user likes",
    "Unknown": "[n, q]",
    "Optional": "[n, o]",
    "Real": "[n * 1.5]",
    "Choice": "[n * free]",
    "Any": "[n, _]",
}


def an_op(name: str, text: str) -> str:
    return op(
        name,
        operand("Input", "x", text="[n, h, w, c]"),
        operand("Input", "b", text="[c]"),
        operand("Input", "maybe", text="[o]", optional=True),
        operand("Output", "y", text=text),
        operand("Parameter", "k", "INT_32", "SCALAR"),
        operand("Parameter", "less", "INT_32", "SCALAR", optional=True, default="-2"),
        operand("Parameter", "free", "INT_32", "SCALAR", optional=True),
    )


ENDS = op(
    "Ends",
    operand("Input", "x", text="[a, .., z]"),
    operand("Output", "y", text="[z, .., 4]"),
    operand("Output", "all", more="<Constraint Type='Shape'>shape = x</Constraint>"),
)

NAMED = op(
    "Named",
    operand("Input", "x", text="[n, b, y, count]"),
    operand("Input", "b", text="[count]"),
    operand("Output", "y", text="[n, b * 2, y, max(b, y), x.dim[1], shape(b)[0], count]"),
)

TYPES = {
    "Quantized": ("UFIXED_POINT_8,UFIXED_POINT_16", "CPU"),
    "Bytes": ("UINT_8,UINT_16", "DSP_V66"),
    "Either": ("INT_32,FLOAT_32", "CPU"),
    "Plain": ("INT_32", "CPU"),
}


def typed(name: str, types: str, backend: str) -> str:
    x = operand("Input", "x", "FLOAT_32,INT_32,BOOL_8" if backend == "CPU" else "UINT_8", text="[n]")
    return op(name, x, operand("Output", "y", types, text="[n]"), backends=(backend,))


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    config = tmp_path_factory.mktemp("config") / "c.xml"
    ops = [an_op(name, text) for name, text in {**TOLD, **UNTOLD}.items()]
    ops += [typed(name, *types) for name, types in TYPES.items()]
    config.write_text(package("Shapes", *ops, ENDS, NAMED))
    return read_valid(config)


@pytest.fixture(scope="module")
def kernels(collection: Collection, tmp_path_factory: pytest.TempPathFactory) -> Any:
    (folder,) = generate([collection], tmp_path_factory.mktemp("out"))
    subprocess.run(["make", "-s", "-j2", "reg_x86", "CXXFLAGS=-O0"], cwd=folder, check=True, timeout=300)
    with Kernels([folder / "libs/x86-64_linux_clang/libUdoShapesReg.so"]) as opened:
        yield opened


needs_make = pytest.mark.skipif(
    not (shutil.which("make") and shutil.which("g++")), reason="needs make and a C++ compiler"
)


def view(type: str, *shapes: tuple[int | None, ...], outputs: int = 1, **params: int) -> OpView:
    inputs = tuple(TensorSpec(shape, FLOAT32) for shape in shapes)
    return OpView("Shapes", type, "op", inputs, (None,) * outputs, params)


def test_texts_that_a_library_tells(collection: Collection) -> None:
    told = {op.type for op in package_view(collection).ops if op.shapes is not None}
    assert told == {*TOLD, *TYPES, "Ends", "Named"}


@needs_make
@pytest.mark.parametrize("type", TOLD)
@pytest.mark.parametrize("shape", [(2, 7, 6, 5), (1, 4, 11, 5), (2, None, 6, 5)])
def test_the_library_tells_what_the_converter_finds(
    collection: Collection, kernels: Any, type: str, shape: tuple[int | None, ...]
) -> None:
    definition = next(each for each in collection.opdefs if each.name == type)
    asked = view(type, shape, (5,), k=3)
    expected = infer(definition, asked)
    assert expected is not None
    assert expected[0] is not None
    assert [spec.shape for spec in kernels.infer(asked, definition)] == [expected[0].shape]


@needs_make
def test_any_number_of_axes(collection: Collection, kernels: Any) -> None:
    definition = next(each for each in collection.opdefs if each.name == "Ends")
    for shape in ((2, 3), (2, 5, 3), (2, 5, None, 6, 3)):
        asked = view("Ends", shape, outputs=2)
        found = [spec.shape for spec in kernels.infer(asked, definition)]
        assert found == [spec.shape for spec in infer(definition, asked) or [] if spec is not None]
        assert found == [(3, *shape[1:-1], 4), shape]


@needs_make
@pytest.mark.parametrize("type", UNTOLD)
def test_what_is_not_told_is_left_to_the_user(
    kernels: Any, type: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert kernels.infer(view(type, (2, 7, 6, 5), (5,), k=3)) is None
    assert f"printed: fill infer_{type} in jni/src/reg/shapes/{type}.cpp" in caplog.text


@needs_make
@pytest.mark.parametrize(
    ("type", "first", "stated", "told"),
    [
        ("Quantized", FLOAT32, None, FLOAT32),
        ("Quantized", BOOL8, None, UFIXED8),
        ("Quantized", INT32, FLOAT32, FLOAT32),
        ("Bytes", FLOAT32, None, FLOAT32),
        ("Bytes", UINT8, None, UINT8),
        ("Bytes", FLOAT32, UINT16, UINT16),
        ("Either", FLOAT32, None, FLOAT32),
        ("Either", BOOL8, None, INT32),
        ("Either", INT32, FLOAT32, FLOAT32),
        ("Plain", FLOAT32, FLOAT32, INT32),
    ],
)
def test_types_of_outputs(kernels: Any, type: str, first: DType, stated: DType | None, told: DType) -> None:
    output = None if stated is None else TensorSpec((3,), stated)
    asked = OpView("Shapes", type, "op", (TensorSpec((3,), first),), (output,), {})
    assert [(spec.shape, spec.dtype) for spec in kernels.infer(asked)] == [((3,), told)]


@needs_make
def test_extents_of_one_name_must_be_alike(collection: Collection, kernels: Any) -> None:
    definition = next(each for each in collection.opdefs if each.name == "Dims")
    asked = view("Dims", (2, 7, 6, 5), (4,), k=3)
    with pytest.raises(ConstraintError, match="expected dimension 5"):
        infer(definition, asked)
    with pytest.raises(BackendError, match="extent c is 5 in one input and 4 in another"):
        kernels.infer(asked, definition)


@needs_make
def test_an_extent_named_like_a_tensor(collection: Collection, kernels: Any) -> None:
    definition = next(each for each in collection.opdefs if each.name == "Named")
    asked = view("Named", (2, 7, 6, 5), (5,))
    (spec,) = infer(definition, asked) or (None,)
    assert spec is not None
    assert spec.shape == (2, 14, 6, 7, 7, 5, 5)
    assert [each.shape for each in kernels.infer(asked, definition)] == [spec.shape]


@needs_make
def test_an_impossible_extent_is_an_error(kernels: Any) -> None:
    with pytest.raises(BackendError, match="the impossible extent -3"):
        kernels.infer(view("Params", (2, 7, 6, 5), (5,), k=3, less=10))
    with pytest.raises(BackendError, match=r"numbers too large|impossible"):
        kernels.infer(view("Params", (2**31, 7, 6, 5), (5,), k=2**31 - 1))
