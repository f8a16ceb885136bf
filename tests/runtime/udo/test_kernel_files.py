"""Files of compiled kernels: written, read, run, refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.udo.conftest import SAMPLE
from tests.runtime.udo.kernel_meta import call, written
from tests.runtime.udo.udo_graphs import custom_graph
from tests.support.compilers import build_library, needs_cc
from tests.support.custom_ops import scale_graph
from xdlc import api
from xdlc.container import load
from xdlc.errors import (
    BackendError,
    ModelError,
    ProblemList,
    StorageError,
    UnsupportedOp,
    UsageError,
    XdlcError,
)
from xdlc.ir import Model, Tensor, f32, make_op
from xdlc.ir.dtype import FLOAT32
from xdlc.json_fields import MAX_PROBLEMS
from xdlc.opdefs.source_match import Kernel
from xdlc.runtime.udo.kernel_files import kernel_files, read_calls
from xdlc.runtime.udo.sources import OWN_MACHINE

KERNEL = Kernel("scale", "scale_run", "ifs", (1, 0.5, "a"), "linux-x86_64", "gcc 12", b"\x7fELF...")
X = np.float32([[1, 2, 3], [4, 5, 6]])
ABORTS = (
    "#include <stdlib.h>\n__attribute__((constructor)) static void go(void) { abort(); }\nint plain_kernel;\n"
)


# ------------------------------------------------------------------ files


def test_a_model_is_saved_with_the_files_of_its_kernels(tmp_path: Path) -> None:
    model = scale_graph()
    first = call(model, KERNEL, model.main.ops[0].name)
    model.files |= kernel_files([first, replace(first, ops=("t", "u"))])
    model.clone().save(tmp_path / "m.dlc")
    assert sorted(path.name for path in (tmp_path / "kernel_meta").iterdir()) == ["scale.json", "scale.so"]
    calls = read_calls(tmp_path / "kernel_meta" / "scale.json")
    assert [each.ops for each in calls] == [first.ops, ("t", "u")]
    assert calls[0] == replace(first, path=str(tmp_path / "kernel_meta" / "scale.json"))
    assert not load(tmp_path / "m.dlc").files


def test_nothing_is_written_where_the_folder_cannot_be_made(tmp_path: Path) -> None:
    model = scale_graph()
    model.files |= kernel_files([call(model, KERNEL, model.main.ops[0].name)])
    (tmp_path / "kernel_meta").write_text("a file of the user")
    with pytest.raises(StorageError, match="cannot be created"):
        model.save(tmp_path / "m.dlc")
    assert [path.name for path in tmp_path.iterdir()] == ["kernel_meta"]


def test_parameters_fit_as_the_file_rounds_them(tmp_path: Path) -> None:
    model = Model({"graph": custom_graph("Plain", {"a": f32(0.1), "b": f32(math.nan), "c": f32(math.inf)})})
    path = written(tmp_path, call(model, KERNEL, "custom")) / "scale.json"
    (op,) = model.main.ops
    (stated,) = read_calls(path)
    assert stated.fits(op)
    op.params["a"] = f32(0.2)
    assert not stated.fits(op)


def test_kernels_of_one_name_have_files_of_their_own(tmp_path: Path) -> None:
    model = scale_graph()
    calls = [
        call(
            model, replace(KERNEL, name=name, binary=name.encode() + bytes([number])), model.main.ops[0].name
        )
        for number, name in enumerate(("k_1", "k", "k", "../k"))
    ]
    names = {path.name for path in written(tmp_path, *calls).iterdir()}
    stems = ("k", "k_1", "k_2", "___k")
    assert names == {f"{stem}.{suffix}" for stem in stems for suffix in ("json", "so")}


def test_a_file_with_very_many_faults_is_refused_with_the_first(tmp_path: Path) -> None:
    model = scale_graph()
    path = written(tmp_path, call(model, KERNEL, model.main.ops[0].name)) / "scale.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "calls": [{"type": 1}] * 200}))
    with pytest.raises(ProblemList) as caught:
        read_calls(path)
    assert len(caught.value.problems) == MAX_PROBLEMS


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64, np.float16, np.float64, np.dtype(">i4")])
def test_arrays_are_arguments_too(tmp_path: Path, dtype: Any) -> None:
    model, array = scale_graph(), np.arange(6).reshape(2, 3).astype(dtype)
    kernel = replace(KERNEL, arguments="oi", values=(array, np.int32(3)))
    folder = written(tmp_path, call(model, kernel, model.main.ops[0].name))
    ((first, second),) = [each.kernel.values for each in read_calls(folder / "scale.json")]
    assert first.dtype == np.dtype(dtype).newbyteorder("=")
    assert (first == array).all()
    assert second == 3


@pytest.mark.parametrize("value", [object(), None, np.array(["a"]), np.zeros(1 << 20)])
def test_an_argument_without_a_form_is_refused(value: Any) -> None:
    model = scale_graph()
    kernel = replace(KERNEL, arguments="o", values=(value,))
    with pytest.raises(UsageError, match="argument of type"):
        kernel_files([call(model, kernel, model.main.ops[0].name)])


@pytest.mark.parametrize(
    ("changes", "place", "problem"),
    [
        ({"entry": 3}, "entry", "must be a string"),
        ({"machine": None}, "machine", "must be a string"),
        ({"library": "../scale.so"}, "library", "a file next to this file"),
        ({"sha256": "0" * 64}, "sha256", "another SHA-256"),
        ({"call": []}, "call", "no field 'call'"),
        ({"calls": {}}, "calls", "must be an array"),
        ({"calls": [{"ops": [1]}]}, "calls[0].ops[0]", "a string that is not empty"),
        ({"calls": [{"arguments": "if", "values": [1]}]}, "calls[0].values", "1 values, but the arguments"),
        ({"calls": [{"arguments": "o", "values": [{"dtype": "no"}]}]}, "calls[0].values[0]", "no type 'no'"),
        ({"calls": [{"arguments": "o", "values": [None]}]}, "calls[0].values[0]", "must be an object"),
        (
            {"calls": [{"arguments": "o", "values": [{"dtype": "int8", "shape": [3], "elements": [1]}]}]},
            "calls[0].values[0]",
            "cannot be read",
        ),
    ],
)
def test_damaged_descriptions_are_refused(
    tmp_path: Path, changes: dict[str, Any], place: str, problem: str
) -> None:
    model = scale_graph()
    path = written(tmp_path, call(model, KERNEL, model.main.ops[0].name)) / "scale.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(XdlcError) as caught:
        read_calls(path)
    assert (f"{path}: {place}", True) in {
        (each.where, problem in each.problem) for each in getattr(caught.value, "problems", [caught.value])
    }


@pytest.mark.parametrize("content", [b"\xff\xff{}", b"[" * 60000, b" " * (1 << 24) + b"1"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "kernel.json"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"is not JSON|has more than"):
        read_calls(path)


# ------------------------------------------------------------------ running


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("kernel")
    return build_library(SAMPLE, folder / "kernel.so", "-DPLAIN_KERNEL").read_bytes()


@pytest.fixture
def model() -> Model:
    return Model({"graph": custom_graph("Plain")})


@pytest.fixture
def folder(tmp_path: Path, model: Model, binary: bytes) -> Callable[..., Path]:
    """Return a function that writes the kernel of the model with changed fields."""

    def write(**changes: Any) -> Path:
        values = (2, 0.5, "", np.float32([0, 10]))
        kernel = Kernel("plain", "plain_kernel", "ifso", values, OWN_MACHINE, "cc 1", binary)
        return written(tmp_path, call(model, replace(kernel, **changes), "custom"))

    return write


def run(model: Model, *paths: Path) -> Any:
    return api.run(model, {"x0": X}, udo_package_path=list(paths))["y"]


@needs_cc
def test_it_runs_with_its_arguments(model: Model, folder: Callable[..., Path]) -> None:
    expected = X * 2 + np.float32(0.5) + np.float32([[0, 10, 0], [10, 0, 10]])
    np.testing.assert_array_equal(run(model, folder()), expected)
    np.testing.assert_array_equal(run(model, folder() / "plain.json"), expected)


@needs_cc
def test_it_is_for_the_ops_that_it_names_as_they_were(
    tmp_path: Path, model: Model, folder: Callable[..., Path]
) -> None:
    path = folder() / "plain.json"
    description = json.loads(path.read_text())
    for changes in ({"params": {"axis": 2}}, {"shapes": [[3, 2], [3, 2]]}):
        path.write_text(json.dumps(description | {"calls": [description["calls"][0] | changes]}))
        with pytest.raises(UnsupportedOp, match="supports other shapes") as caught:
            run(model, path)
        assert "convert the model again" in caught.value.fix
    path.write_text(json.dumps(description | {"calls": [description["calls"][0] | {"ops": ["another"]}]}))
    with pytest.raises(UnsupportedOp, match="there is no kernel for Math::Plain"):
        run(model, path)


@needs_cc
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"machine": "linux-hexagon"},
            "on this machine, .*: the model has .*kernel 'plain', .* for 'linux-hex",
        ),
        ({"entry": "missing"}, "does not export missing"),
        ({"binary": b"\x7fELF"}, "cannot be loaded"),
        ({"binary": b"MZ" * 100}, "cannot be loaded"),
        ({"values": (2, 0.5, "", 7)}, "has the argument 7 for the letter 'o'"),
        ({"values": ("2", 0.5, "", np.zeros(2, np.float32))}, "has the argument '2' for the letter 'i'"),
        (
            {"values": (2, 0.5, ""), "arguments": "ifs"},
            "the kernel returned QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT",
        ),
        ({"values": (2, 0.5, "x", np.zeros(2, np.float32))}, "executing it ended with SIGSEGV"),
    ],
)
def test_what_is_wrong_with_it(
    model: Model, folder: Callable[..., Path], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(XdlcError, match=said) as caught:
        run(model, folder(**changes))
    if "machine" in changes:
        assert "convert the model again on a machine like this" in str(caught.value.fix)


@needs_cc
def test_one_that_ends_its_process(tmp_path: Path, model: Model, folder: Callable[..., Path]) -> None:
    source = tmp_path / "aborts.c"
    source.write_text(ABORTS)
    with pytest.raises(BackendError, match="loading it ended with SIGABRT"):
        run(model, folder(binary=build_library(source, tmp_path / "aborts.so").read_bytes()))


@needs_cc
def test_a_cut_off_binary(model: Model, folder: Callable[..., Path], binary: bytes) -> None:
    with pytest.raises(BackendError, match=r"cannot be loaded|SIGBUS"):
        run(model, folder(binary=binary[:3000]))


@needs_cc
def test_two_kernels_of_one_op_type_differ(tmp_path: Path, model: Model, binary: bytes) -> None:
    """The system would load the second for the first if they had one name."""
    graph = model.main
    z = Tensor("z", (2, 3), FLOAT32)
    graph.append(make_op(graph, "Plain", [graph.tensors["y"]], [z], package="Math", name="second"))
    graph.add_output(z)
    calls = [
        call(
            model,
            Kernel(
                "plain", "plain_kernel", "ifso", (1, shift, "", np.zeros(2, "f4")), OWN_MACHINE, "cc", binary
            ),
            name,
        )
        for name, shift in (("custom", 0.0), ("second", 1.0))
    ]
    results = api.run(model, {"x0": X}, udo_package_path=written(tmp_path, *calls))
    np.testing.assert_array_equal(results["z"], results["y"] + 1)


@needs_cc
def test_two_kernels_for_one_op_are_an_error(
    tmp_path: Path, model: Model, folder: Callable[..., Path]
) -> None:
    (tmp_path / "other").mkdir()
    path = folder() / "plain.json"
    other = tmp_path / "other" / "plain.json"
    other.write_text(path.read_text())
    other.with_suffix(".so").write_bytes(path.with_suffix(".so").read_bytes())
    with pytest.raises(BackendError, match="2 kernels fit op 'custom'"):
        run(model, path, other)
