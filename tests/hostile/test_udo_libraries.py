"""Libraries of user-defined operations that crash, hang, lie or write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.udo.conftest import SAMPLE, Libraries
from tests.runtime.udo.udo_graphs import between_relus, custom_graph
from tests.support.compilers import build_library, needs_cc
from xdlc.errors import BackendError, ProblemList, XdlcError
from xdlc.ir import f32, string
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.udo import Kernels, worker_client

pytestmark = needs_cc
X = np.float32([[1, 2, 3], [4, 5, 6]])


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    return Libraries(tmp_path_factory.mktemp("evil"))


@pytest.fixture(scope="module")
def library(libraries: Libraries) -> Path:
    return libraries.package()


@pytest.fixture(scope="module")
def kernels(library: Path) -> Iterator[Kernels]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_client, "RESTARTS", 100)
        made = Kernels(library, timeout=20)
        yield made
        made.close()


def evil(kernels: Kernels, how: str) -> BackendError:
    graph = custom_graph("Evil", {"do": string(how)})
    with pytest.raises(BackendError) as caught:
        CpuSession(graph, kernels=kernels).run({"x0": X})
    return caught.value


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("segfault", "executing it ended with SIGSEGV"),
        ("abort", "executing it ended with SIGABRT"),
        ("exit", "executing it ended with status 0"),
        ("die", "executing it ended with status 3"),
        ("write the input", "executing it ended with SIGSEGV"),
        ("print and crash", r"SIGABRT; it printed 'I am out of my depth'"),
        ("close the line", "executing it (closed its channel|ended with)"),
        ("babble", "executing it wrote into the channel that carries answers"),
        ("fail", "executeOp returned SNPE_UDO_INVALID_ARGUMENT: the data are not to my liking"),
        ("odd status", "executeOp returned the unknown status 77"),
        ("refuse", "validateOperation returned SNPE_UDO_UNSUPPORTED_FEATURE: Evil is refused"),
        ("crash in validate", "opening it ended with SIGSEGV"),
        ("no factory", "createOpFactory returned SNPE_UDO_MEM_ALLOC_ERROR: there are no factories left"),
        ("wrong shape", r"infers that output 0 has shape \[3, 3\], but the model states \[2, 3\]"),
        ("huge rank", "EvilShapeInference returned rank 1000"),
    ],
)
def test_what_an_op_does_wrong_names_op_and_library(
    kernels: Kernels, library: Path, how: str, said: str
) -> None:
    error = evil(kernels, how)
    assert re.search(said, error.problem), error
    assert "graph 'graph': op 'custom' (Math::Evil): " in str(error.where)
    assert str(library.parent) in str(error.where)


def test_an_endless_loop_is_ended(library: Path) -> None:
    with Kernels(library, timeout=1) as kernels:
        error = evil(kernels, "loop")
        assert error.problem == "executing it did not end within 1 s"
        assert "udo_timeout" in str(error.fix)


def test_a_library_logs_and_works_on(kernels: Kernels) -> None:
    graph = custom_graph("Evil", {"do": string("log")})
    np.testing.assert_array_equal(CpuSession(graph, kernels=kernels).run({"x0": X})["y"], X)


def test_sessions_go_on_after_a_crash_a_few_times(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_client, "RESTARTS", 2)
    with Kernels(library) as kernels:
        good = CpuSession(between_relus("Scale", {"factor": f32(2)}), kernels=kernels)
        bad = CpuSession(custom_graph("Evil", {"do": string("segfault")}), kernels=kernels)
        for _ in range(2):
            np.testing.assert_array_equal(good.run({"x": X})["y"], X * 2)
            with pytest.raises(BackendError, match="SIGSEGV"):
                bad.run({"x0": X})
        np.testing.assert_array_equal(good.run({"x": X})["y"], X * 2)
        with pytest.raises(BackendError, match="SIGSEGV"):
            bad.run({"x0": X})
        with pytest.raises(BackendError, match="died 3 times"):
            good.run({"x": X})


def opened(path: Path) -> XdlcError:
    (op,) = custom_graph("Scale", {"factor": f32(1)}).ops
    with Kernels(path) as kernels, pytest.raises(XdlcError) as caught:
        kernels.operation(op)
    return caught.value


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["-DNO_INFO"], "has no info: it is NULL"),
        (["-DNUM_OPS=4000000000u"], "states 4000000000 operations; xdlc supports at most 4096"),
        (["-DNUM_OPS=0"], "lists no operations"),
        (
            ["-DNUM_OPS=4000"],
            "loading it ended with SIG|has no operation type|lists the operation|says that",
        ),
        (["-DCORES=0"], "runs on cores 0x0, which are unknown"),
        (["-DCORES=9"], "runs on cores 0x9, which are unknown"),
        (['-DPACKAGE=""'], "has no package: it is empty"),
        (["-DPACKAGE=NULL"], "has no package: it is NULL"),
        (
            ['-DLIBRARY="../libMathCpu.so"'],
            "names the implementation library '../libMathCpu.so'",
        ),
        (['-DLIBRARY="/lib/x.so"'], "names the implementation library '/lib/x.so'"),
        (['-DLIBRARY=".."'], "names the implementation library '..'"),
        (['-DLIBRARY="libNone.so"'], "missing from its folder"),
    ],
)
def test_a_registration_library_that_lies(libraries: Libraries, flags: list[str], said: str) -> None:
    path = libraries.registration(*flags)
    error = opened(path)
    assert re.search(said, error.problem), error
    assert str(path) in str(error.where)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ('-DPACKAGE="Other"',),
            "implements package 'Other' for CPU, but must implement 'Math' for CPU",
        ),
    ],
)
def test_an_implementation_library_that_is_not_the_right_one(
    libraries: Libraries, flags: tuple[str, ...], said: str
) -> None:
    error = opened(libraries.package(implementation=flags))
    assert said in error.problem
    assert "libMathCpu.so" in str(error.where)


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (0, b"\0", "cannot be loaded"),
        (4, b"\1", "cannot be loaded"),
        (5, b"\2", "cannot be loaded"),
        (18, b"\xb7\0", "the library is for aarch64, but this machine is"),
        (18, b"\xa4\0", "the library is for hexagon"),
        (16, b"\2\0", "cannot be loaded"),
    ],
)
def test_files_of_other_machines(tmp_path: Path, library: Path, at: int, value: bytes, said: str) -> None:
    content = bytearray(library.read_bytes())
    content[at : at + len(value)] = value
    path = tmp_path / "lib.so"
    path.write_bytes(content)
    error = opened(path)
    assert said in error.problem
    assert error.where == str(path)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\nexit 1\n" * 9])
def test_files_that_are_no_libraries(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(content)
    assert "cannot be loaded" in opened(path).problem


def test_a_library_that_is_cut_off(tmp_path: Path, library: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(library.read_bytes()[:3000])
    assert "cannot be loaded" in opened(path).problem or "SIGBUS" in opened(path).problem


def test_a_library_without_the_function(libraries: Libraries) -> None:
    assert "does not export SnpeUdo_initRegLibrary" in opened(libraries.kernel()).problem


def test_an_implementation_library_in_place_of_the_registration(libraries: Libraries) -> None:
    error = opened(libraries.package().with_name("libMathCpu.so"))
    assert str(error.fix).startswith("give the registration library")


def test_a_library_that_crashes_while_it_is_loaded(tmp_path: Path) -> None:
    source = tmp_path / "bomb.c"
    source.write_text("#include <stdlib.h>\n__attribute__((constructor)) static void go(void) { abort(); }\n")
    path = build_library(source, tmp_path / "bomb.so")
    error = opened(path)
    assert error.problem == "loading it ended with SIGABRT"
    assert error.where == str(path)


def test_a_library_for_other_cores_only(libraries: Libraries) -> None:
    path = libraries.registration("-DCORES=SNPE_UDO_CORETYPE_DSP")
    error = opened(path)
    assert "there is no kernel for Math::Scale" in error.problem
    assert f"build the kernel for the CPU: {path} has the kernel only for DSP" in str(error.fix)


def test_two_libraries_with_one_op(libraries: Libraries, library: Path) -> None:
    other = libraries.single()
    (op,) = custom_graph("Scale").ops
    with Kernels([library, other]) as kernels, pytest.raises(XdlcError) as caught:
        kernels.knows(op)
    assert f"{library} and {other} both have a kernel for Math::Scale" in str(caught.value)


def test_a_library_that_releases_not_all_is_told_when_it_is_closed(tmp_path: Path) -> None:
    text = SAMPLE.read_text().replace("  --factories;\n  free(factory);", "  free(factory);")
    source = tmp_path / "leak.c"
    source.write_text(text)
    both = ("-DREGISTRATION", "-DIMPLEMENTATION", '-DLIBRARY="leak.so"')
    path = build_library(source, tmp_path / "leak.so", *both)
    kernels = Kernels(path)
    CpuSession(custom_graph("Scale"), kernels=kernels).run({"x0": X})
    with pytest.raises(
        BackendError,
        match="terminateImplLibrary returned SNPE_UDO_UNSUPPORTED_FEATURE: something has not been released",
    ):
        kernels.close()


def test_a_library_that_cannot_tell_open_shapes(libraries: Libraries) -> None:
    path = libraries.package("-DNO_SHAPES")
    graph = custom_graph("Grow", {"factor": f32(1)}, open_axes=(0,), output=(4, 3))
    with Kernels(path) as kernels, pytest.raises(BackendError) as caught:
        CpuSession(graph, kernels=kernels).run({"x0": X})
    assert "does not infer the shapes of outputs" in caught.value.problem
    assert "GrowShapeInference" in str(caught.value.fix)
    assert str(path) in str(caught.value.where)


def test_a_shape_function_in_python_for_a_library(libraries: Libraries, tmp_path: Path) -> None:
    shapes = tmp_path / "shapes.py"
    shapes.write_text(
        "from xdlc.udo import shape_function\n@shape_function('Math', 'Grow')\n"
        "def f(op):\n    rows, columns = op.inputs[0].shape\n"
        "    return (None if rows is None else 3 * rows, columns)\n"
    )
    graph = custom_graph("Grow", {"factor": f32(2)}, open_axes=(0,), output=(4, 3))
    for flags in (["-DNO_SHAPES"], []):
        with Kernels([libraries.package(*flags), shapes]) as kernels:
            got = CpuSession(graph, kernels=kernels).run({"x0": X})["y"]
        np.testing.assert_array_equal(got, np.concatenate([X, X, X]) * 2)


def test_problems_of_all_files_are_listed_up_to_a_crash(libraries: Libraries, tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("1 / 0\n")
    worse = tmp_path / "worse.py"
    worse.write_text("import os\nos.abort()\n")
    never = tmp_path / "never.py"
    never.write_text("raise AssertionError('the process is gone')\n")
    (op,) = custom_graph("Scale").ops
    with Kernels([libraries.registration("-DNO_INFO"), bad, worse, never]) as kernels:
        with pytest.raises(ProblemList) as caught:
            kernels.knows(op)
        told = [problem.problem for problem in caught.value.problems]
    assert "has no info" in told[0]
    assert "ZeroDivisionError" in told[1]
    assert "SIGABRT" in told[2]
    assert len(told) == 3
