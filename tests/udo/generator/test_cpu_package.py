"""A package of two operations: built without warnings, filled, run, stressed."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support.compilers import STRICT, run_cc
from tests.udo.generator import two_ops
from xdlc.container.udo import add_definitions
from xdlc.errors import BackendError, UsageError
from xdlc.ir import Graph, Model, Op, Scalar, Tensor, f32, i32, static, string, u32
from xdlc.ir.dtype import FLOAT32, INT32
from xdlc.opdefs.xml_reader import parse_collection
from xdlc.runtime.interfaces import ctype, names
from xdlc.runtime.udo.kernels import Kernels
from xdlc.udo import check

CXX = next(
    (name for name in (os.environ.get("CXX", ""), "g++", "clang++") if name and shutil.which(name)), None
)
needs_make = pytest.mark.skipif(
    CXX is None or shutil.which("make") is None, reason="needs make and a C++ compiler"
)
pytestmark = needs_make
LIBS = "libs/x86-64_linux_clang"


def run(folder: Path, *words: str, code: int = 0) -> str:
    environment = os.environ | {"PYTHONPATH": str(Path(xdlc.__file__).parents[1])}
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def make(folder: Path, *words: str, code: int = 0) -> str:
    return run(folder, "make", "-j2", f"CXX={CXX}", *words, code=code)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with nothing filled."""
    package = two_ops.generated(tmp_path_factory.mktemp("with a space"))
    log = make(package, "cpu_x86", "reg_x86", "CXXFLAGS=-O0")
    assert "-Wall -Wextra -Werror -pedantic" in log
    assert "warning" not in log
    return package


@pytest.fixture(scope="module")
def filled(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a user leaves it."""
    package = tmp_path_factory.mktemp("filled") / built.name
    shutil.copytree(built, package)
    two_ops.fill(package)
    make(package, "all_x86", "CXXFLAGS=-O0")
    return package


@pytest.fixture(scope="module")
def kernels(filled: Path) -> Any:
    with Kernels([filled / LIBS / "libUdoTwoOpsReg.so"]) as opened:
        yield opened


IMPLEMENTATION = {
    *(f"SnpeUdo_{name}" for name in (
        "initImplLibrary", "getVersion", "getImpInfo", "createOpFactory", "releaseOpFactory",
        "createOperation", "setOpIO", "executeOp", "profileOp", "releaseOp", "terminateImplLibrary",
    )),
    "TwoOpsInterfaceProvider",
    "TwoOpsInterfaceProviderV2",
}  # fmt: skip
REGISTRATION = {
    *(f"SnpeUdo_{name}" for name in (
        "initRegLibrary", "getVersion", "getRegInfo", "validateOperation", "terminateRegLibrary",
    )),
    "BlendShapeInference",
    "BlendDataTypeInference",
}  # fmt: skip


@pytest.mark.parametrize(("name", "entries"), [("ImplCpu", IMPLEMENTATION), ("Reg", REGISTRATION)])
def test_libraries_export_the_vendors_entry_points_and_nothing_else(
    built: Path, name: str, entries: set[str]
) -> None:
    listed = run(built, "nm", "-D", "--defined-only", f"{LIBS}/libUdoTwoOps{name}.so")
    assert {line.split()[-1] for line in listed.splitlines() if " T " in line} == entries


def test_a_kernel_that_is_not_filled_is_an_error(built: Path, filled: Path) -> None:
    affine: tuple[Any, ...] = ("Affine", [(1, 2, 2, 3), (3,)], {"bias": (3,)})
    with pytest.raises(BackendError, match=r"fill run_Affine in python/TwoOps/kernels\.py"):
        check(built, *affine)
    kernels = "python/TwoOps/kernels.py"
    blank = (built / kernels).read_text()
    (built / kernels).write_text((filled / kernels).read_text())
    with pytest.raises(BackendError, match="UNSUPPORTED_FEATURE: fill execute of Affine"):
        check(built, *affine)
    (built / kernels).write_text(blank)
    with pytest.raises(BackendError, match=r"fill shape_Blend in python/TwoOps/shapes\.py"):
        check(built, "Blend", [(2, 3)])


@pytest.mark.slow
def test_its_own_tests_fail_until_it_is_filled_and_pass_then(built: Path, filled: Path) -> None:
    words = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    said = run(built, *words, code=1)
    assert re.search(r"\d+ failed", said)
    assert "passed" not in said
    assert "5 passed" in run(filled, *words)


def test_operands_of_a_check(filled: Path) -> None:
    shape, bias = np.ones((1, 1, 2, 2), np.float32), np.float32([0.5, -1])
    check(filled, "Affine", [shape, bias], {"bias": (2,), "shift": 3}, rtol=0, atol=1e-6)
    check(filled, "Blend", [(2, 3), None, (2, 3)], {"mode": "MAX", "label": "x"})
    for params, problem in (({"other": 1}, "no parameter other"), ({"mode": "MIN"}, "no value 'MIN'")):
        with pytest.raises(UsageError, match=problem):
            check(filled, "Blend", [(2, 3)], params)
    with pytest.raises(UsageError, match="no operation Blent") as caught:
        check(filled, "Blent", [(2, 3)])
    assert "Blend" in str(caught.value.fix)


def test_a_check_finds_a_difference(filled: Path, tmp_path: Path) -> None:
    package = tmp_path / filled.name
    shutil.copytree(filled, package)
    kernels = package / "python/TwoOps/kernels.py"
    head = "def run_Blend(inputs, params, outputs):"
    assert head in kernels.read_text()
    kernels.write_text(kernels.read_text().replace(head, f"{head}\n    return inputs[0] + 1\n"))
    with pytest.raises(AssertionError, match="Blend, output 0"):
        check(package, "Blend", [(2, 3)])


DRIVE = Path(__file__).parent / "shims/drive_cpu.c"


@pytest.fixture(scope="module")
def drive(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that drives Blend through SnpeUdo's or QNN's entry points in threads."""
    program = tmp_path_factory.mktemp("drive") / "drive"
    run_cc(
        [
            *STRICT,
            "-g",
            "-isystem",
            str(filled / "include/standin"),
            str(DRIVE),
            "-o",
            str(program),
            "-ldl",
            "-pthread",
        ]
    )
    return program


INTERFACES = [("snpe", ""), ("qnn", "TwoOpsInterfaceProvider"), ("qnn", "TwoOpsInterfaceProviderV2")]


@pytest.mark.parametrize(("kind", "provider"), INTERFACES)
def test_eight_threads(filled: Path, drive: Path, kind: str, provider: str) -> None:
    words = (str(drive), kind, f"{LIBS}/libUdoTwoOpsImplCpu.so", "8", "200", *filter(None, [provider]))
    assert run(filled, *words) == "ok\n"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
@pytest.mark.parametrize(("kind", "provider"), INTERFACES)
def test_nothing_leaks_under_valgrind(filled: Path, drive: Path, kind: str, provider: str) -> None:
    said = run(
        filled,
        *("valgrind", "--leak-check=full", "--errors-for-leak-kinds=definite,possible", "--error-exitcode=1"),
        *(str(drive), kind, f"{LIBS}/libUdoTwoOpsImplCpu.so", "8", "20", *filter(None, [provider])),
    )
    assert "ERROR SUMMARY: 0 errors" in said


def affine(**changes: Any) -> Op:
    """An Affine of a model; ``changes`` replace operands."""
    graph = Graph("g")
    x = graph.add_input(Tensor("x", changes.get("shape", (1, 1, 1, 2)), changes.get("dtype", FLOAT32)))
    weight = graph.add_tensor(static("w", np.array([1, 2], changes.get("stored", np.float32))))
    inputs = [x, *([weight] if changes.get("weight", True) else [])]
    y = graph.add_tensor(Tensor("y", changes.get("out", (1, 1, 1, 2)), FLOAT32))
    params = {"bias": static("", np.array([1, 1], np.float32)), **changes.get("params", {})}
    op = Op("Affine", inputs, [y], {name: value for name, value in params.items() if value is not None},
            name="a", package="TwoOps")  # fmt: skip
    graph.append(op)
    graph.add_output(y)
    return op


def test_defaults_of_parameters_are_in_the_library(kernels: Any) -> None:
    (result,) = kernels.operation(affine()).run([np.ones((1, 1, 1, 2), np.float32), None])
    assert result.reshape(-1).tolist() == [1 + 1 + 4.5 + 2, 2 + 1 + 4.5 + 2]
    table = static("", np.array([[8]], np.float32))
    given = affine(params={"table": table, "shift": i32(-3)})
    (result,) = kernels.operation(given).run([np.ones((1, 1, 1, 2), np.float32), None])
    assert result.reshape(-1).tolist() == [1 + 1 - 3 + 8 + 1, 2 + 1 - 3 + 8 + 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": False}, r"Affine: expected 2 inputs, found 1"),
        ({"shape": (1, 2)}, r"input x of Affine: expected 4 axes, found 2"),
        ({"dtype": INT32}, r"input x of Affine: expected data type FLOAT_32, found INT_32"),
        ({"stored": np.int32}, r"input weight of Affine: expected data type FLOAT_32, found INT_32"),
        ({"params": {"bias": None}}, r"Affine: parameter bias is missing"),
        ({"params": {"bias": f32(1)}}, r"parameter bias of Affine: expected a tensor"),
        ({"params": {"bias": static("", np.int32([1, 1]))}}, r"expected data type FLOAT_32, found INT_32"),
        ({"params": {"table": static("", np.float32([1]))}}, r"table of Affine: expected 2 axes, found 1"),
        ({"params": {"shift": string("one")}}, r"parameter shift of Affine: expected a scalar"),
        ({"params": {"shift": f32(1.5)}}, r"shift of Affine: expected data type INT_32, found FLOAT_32"),
        ({"params": {"shift": Scalar(INT32, 1 << 40)}}, r"parameter shift: 1099511627776 is out of range"),
        ({"params": {"other": i32(1)}}, r"Affine has no parameter other"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_definition_is_refused(
    kernels: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(BackendError, match=message):
        kernels.operation(affine(**changes)).run([np.ones((1, 1, 1, 2), np.float32), None])


@pytest.mark.parametrize(
    ("shift", "message"),
    [(-98, "UNKNOWN_ERROR: an exception of unknown type"), (-99, "MEM_ALLOC_ERROR: not enough memory")],
)
def test_no_exception_leaves_the_library(kernels: Any, shift: int, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        kernels.operation(affine(params={"shift": i32(shift)})).run([np.ones((1, 1, 1, 2), np.float32), None])


def test_an_implementation_library_is_no_registration_library(filled: Path) -> None:
    with (
        Kernels([filled / LIBS / "libUdoTwoOpsImplCpu.so"]) as opened,
        pytest.raises(BackendError, match="does not export") as caught,
    ):
        opened.operation(affine())
    assert (
        caught.value.fix
        == "give the registration library, libUdo<Package>Reg.so, not the implementation library"
    )


def test_an_enumerator_out_of_range_is_refused(kernels: Any) -> None:
    graph = Graph("g")
    x, y = graph.add_input(Tensor("x", (2,), FLOAT32)), graph.add_tensor(Tensor("y", (2,), FLOAT32))
    op = graph.append(Op("Blend", [x], [y], {"mode": u32(2)}, name="b", package="TwoOps"))
    with pytest.raises(BackendError, match="parameter mode of Blend: expected 0 to 1, found 2"):
        kernels.operation(op)


def onnx_model(path: Path) -> Path:
    """A network with both operations; an optional input is left out in the middle."""
    import onnx
    from onnx import TensorProto, helper

    weight = helper.make_tensor("w", TensorProto.FLOAT, [3], np.float32([1, -2, 0.5]))
    shape = [1, 4, 4, 3]
    nodes = [
        helper.make_node("Affine", ["x", "w"], ["a"], domain="example", bias=[0.1, 0.2, 0.3], shift=2),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Blend", ["r", "", "x", "a"], ["b"], domain="example", mode="MAX", label="hi"),
        helper.make_node("Sigmoid", ["b"], ["z"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xz"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_a_network_gives_the_same_with_the_library_and_the_numpy_kernels(
    filled: Path, tmp_path: Path
) -> None:
    library, python = filled / LIBS / "libUdoTwoOpsReg.so", filled / "python/TwoOps/kernels.py"
    model = xdlc.convert(
        onnx_model(tmp_path / "m.onnx"),
        udo_config_paths=[filled / "config/two.xml"],
        converter_op_package_lib=[library],
    )
    x = np.random.default_rng(1).standard_normal((1, 4, 4, 3)).astype(np.float32)
    affine = x * np.float32([1, -2, 0.5]) + np.float32([0.1, 0.2, 0.3]) + 2 + 4.5 + 2
    blend = np.maximum(np.maximum(np.maximum(affine, 0), x), affine) * 1.5 + 1
    expected = 1 / (1 + np.exp(-blend))
    for path in (library, python):
        np.testing.assert_allclose(xdlc.run(model, {"x": x}, udo_package_path=path)["z"], expected, rtol=1e-5)
    results = [
        xdlc.run(xdlc.quantize(model, [{"x": x}], udo_package_path=path), {"x": x}, udo_package_path=path)[
            "z"
        ]
        for path in (library, python)
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], expected, atol=0.02)


@pytest.fixture(scope="module", params=["", "TwoOpsInterfaceProvider", "TwoOpsInterfaceProviderV2:CPU"])
def qnn(filled: Path, request: pytest.FixtureRequest) -> Any:
    """The library as SnpeUdo's, and as a QNN op package of both versions."""
    name = f"libUdoTwoOpsImplCpu.so:{request.param}" if request.param else "libUdoTwoOpsReg.so"
    with Kernels([filled / LIBS / name]) as opened:
        yield opened


def test_every_interface_gives_what_the_numpy_kernel_gives(filled: Path, qnn: Any) -> None:
    graph = Graph("g")
    x = np.random.default_rng(2).standard_normal((4, 3)).astype(np.float32)
    inputs = [graph.add_input(Tensor(name, x.shape, FLOAT32)) for name in "abc"]
    y = graph.add_tensor(Tensor("y", x.shape, FLOAT32))
    params = {"coeff": f32(0.5), "label": string("any"), "mode": u32(1)}
    op = graph.append(Op("Blend", [inputs[0], None, *inputs[1:]], [y], params, name="b", package="TwoOps"))
    operation = qnn.operation(op)
    (found,) = operation.run([x, None, x * 2, -x])
    np.testing.assert_allclose(found, np.maximum.reduce([x, x * 2, -x]) * 0.5 + 1, rtol=1e-6)
    assert operation.profile() >= 0
    (again,) = operation.run([x + 1, None, x, x])
    np.testing.assert_allclose(again, (x + 1) * 0.5 + 1, rtol=1e-6)
    with Kernels([filled / "python/TwoOps/kernels.py"]) as python:
        # numpy's kernel has the enumerator's name from the definition, which this model lacks
        assert python.knows(op)


def test_every_interface_passes_static_data_and_tensor_parameters(qnn: Any) -> None:
    (result,) = qnn.operation(affine(params={"shift": i32(-3)})).run(
        [np.ones((1, 1, 1, 2), np.float32), None]
    )
    assert result.reshape(-1).tolist() == [1 + 1 - 3 + 4.5 + 2, 2 + 1 - 3 + 4.5 + 2]
    with pytest.raises(BackendError, match="table of Affine: expected 2 axes, found 1"):
        qnn.operation(affine(params={"table": static("", np.float32([1]))}))


@pytest.mark.parametrize("name", ["Reg.so", "ImplCpu.so:TwoOpsInterfaceProvider"])
def test_texts_of_the_definition_state_dynamic_shapes(filled: Path, name: str) -> None:
    op = affine()
    op.inputs[0].dynamic_axes = op.outputs[0].dynamic_axes = (0,)
    model = Model({"g": op.graph})
    add_definitions(model, {"TwoOps": parse_collection(two_ops.CONFIG.encode(), "two.xml")})
    with Kernels(filled / LIBS / f"libUdoTwoOps{name}", model=model) as opened:
        operation = opened.operation(op)
        for rows in (3, 1):
            (result,) = operation.run([np.ones((rows, 1, 1, 2), np.float32), None])
            assert result.tolist() == [[[[8.5, 9.5]]]] * rows


def test_a_library_refuses_other_cores_and_operations(
    filled: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    library = ctypes.CDLL(str(filled / LIBS / "libUdoTwoOpsImplCpu.so"))
    create = ctype("SnpeUdo_createOpFactory")(("SnpeUdo_createOpFactory", library))
    factory = ctypes.c_void_p()
    errors = names("SnpeUdo_ErrorType_t", "SNPE_UDO_")
    for core, type, error in ((2, b"Blend", "UNSUPPORTED_FEATURE"), (1, b"Other", "WRONG_OPERATION")):
        text = ctypes.create_string_buffer(type)
        code = create(core, None, ctypes.addressof(text), 0, None, ctypes.addressof(factory))
        assert errors[code] == error
    assert "package TwoOps has no operation Other" in capfd.readouterr().err
