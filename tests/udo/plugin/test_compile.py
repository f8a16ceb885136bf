"""C source becomes a library: same bytes, warnings told, failures precise."""

from __future__ import annotations

import ctypes
import os
import stat
from pathlib import Path

import pytest

from tests.support.compilers import needs_cc
from xdlc.errors import BackendError, StorageError, UsageError
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.udo.plugin import compile_c
from xdlc.udo.plugin.c_kernel import BuildView, machine

SPEC = TensorSpec((4,), FLOAT32)
OP = OpView("P", "Twice", "n", (SPEC,), (SPEC,))
HEAD = """#include "CPU/QnnCpuOpPackage.h"
Qnn_ErrorHandle_t twice(const QnnCpuOpPackage_Node_t *node) {
"""
TWICE = (
    HEAD
    + """  const float *x = node->inputs[0]->data;
  float *y = node->outputs[0]->data;
  for (uint32_t i = 0; i < node->inputs[0]->currentDimensions[0]; i++) y[i] = 2 * x[i];
  return QNN_SUCCESS;
}
"""
)


def exported(binary: bytes, folder: Path, name: str):
    path = folder / "kernel.so"
    path.write_bytes(binary)
    return getattr(ctypes.CDLL(str(path)), name)


@needs_cc
def test_a_kernel_tells_of_itself(tmp_path):
    kernel = compile_c(OP, TWICE, entry="twice", arguments="i, (f, s)", values=(1, (2, "a")))
    assert (kernel.name, kernel.entry, kernel.arguments, kernel.values) == (
        "twice",
        "twice",
        "ifs",
        (1, 2.0, "a"),
    )
    assert kernel.machine == machine()
    assert kernel.tool
    assert exported(kernel.binary, tmp_path, "twice")


@needs_cc
def test_the_same_source_gives_the_same_bytes_wherever_it_lies(tmp_path):
    binaries = []
    for name in ("one", "another"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "twice.h").write_text("#define FACTOR 2\n")
        source = folder / "twice.c"
        source.write_text(
            '#include "twice.h"\n'
            + TWICE.replace("2 * x", "FACTOR * x")
            + "\nconst char *here = __FILE__ __DATE__;\n"
        )
        kernel = compile_c(OP, source, entry="twice")
        assert str(tmp_path).encode() not in kernel.binary
        binaries.append(kernel.binary)
    assert binaries[0] == binaries[1]
    other = compile_c(OP, TWICE.replace("2 *", "3 *"), entry="twice").binary
    assert other != binaries[0]


@needs_cc
def test_only_the_entry_is_exported(tmp_path):
    kernel = compile_c(OP, TWICE + "int helper(void) { return 1; }\n", entry="twice")
    with pytest.raises(AttributeError):
        exported(kernel.binary, tmp_path, "helper")


@needs_cc
def test_warnings_are_told_once_for_each_library():
    notices: list[str] = []
    view = BuildView("P", "Twice", "n", (SPEC,), (SPEC,), notify=notices.append)
    for _ in range(2):
        compile_c(view, TWICE + "static int unused;\n", entry="twice")
    assert len(notices) == 1
    assert "kernel.c:8:12: warning" in notices[0]
    assert "static int unused;" in notices[0]


@needs_cc
@pytest.mark.parametrize(
    ("source", "entry", "problem"),
    [
        (
            TWICE.replace("return QNN_SUCCESS;", "return 0"),
            "twice",
            r"compiling kernel.c failed .*\n.*kernel.c:\d+:\d+: error",
        ),
        (TWICE, "thrice", "linking thrice failed"),
        (
            TWICE.replace("Qnn_ErrorHandle_t twice(", "static Qnn_ErrorHandle_t twice("),
            "twice",
            "static declaration",
        ),
        ("int twice(int x) { return x; }", "twice", "conflicting types"),
        (
            TWICE.replace("2 * x[i]", "other(x[i])").replace("#include", "float other(float);\n#include"),
            "twice",
            "undefined reference to .other",
        ),
        ('#include "missing.h"\n', "twice", "missing.h: No such file"),
    ],
)
def test_source_that_cannot_be_compiled(source, entry, problem):
    with pytest.raises(UsageError, match=f"(?s){problem}") as caught:
        compile_c(OP, source, entry=entry)
    assert "/tmp" not in caught.value.problem


@needs_cc
def test_options_of_the_compiler_are_told_where_they_fail():
    with pytest.raises(UsageError, match="with -DX=1 -fno-such-option failed"):
        compile_c(OP, TWICE, entry="twice", flags=("-DX=1", "-fno-such-option"))


def test_a_missing_compiler_is_told(monkeypatch, tmp_path):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendError, match="none of cc, gcc, clang") as caught:
        compile_c(OP, TWICE, entry="twice")
    assert "compute method" in caught.value.fix
    monkeypatch.setenv("CC", "mycc -m32")
    with pytest.raises(BackendError, match="CC names 'mycc -m32', which is not a C compiler"):
        compile_c(OP, TWICE, entry="twice")
    monkeypatch.setenv("CC", "'")
    with pytest.raises(BackendError, match="which is not a command"):
        compile_c(OP, TWICE, entry="twice")


def script(folder: Path, text: str) -> str:
    path = folder / "fakecc"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.skipif(os.name != "posix", reason="runs a shell script")
def test_a_compiler_that_does_not_end_is_stopped_with_its_children(monkeypatch, tmp_path):
    marker = tmp_path / "child"
    body = f'[ "$1" = --version ] && echo slow 1 && exit 0\n(sleep 3; touch {marker}) & sleep 30'
    monkeypatch.setenv("CC", script(tmp_path, body))
    with pytest.raises(BackendError, match=r"compiling kernel.c took longer than 0.3 s \(slow 1\)"):
        compile_c(OP, TWICE, entry="twice", timeout=0.3)
    assert not marker.exists()


@pytest.mark.skipif(os.name != "posix", reason="runs a shell script")
def test_a_compiler_that_does_not_answer_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", script(tmp_path, "exit 3"))
    with pytest.raises(BackendError, match="--version returned exit code 3"):
        compile_c(OP, TWICE, entry="twice")


@pytest.mark.parametrize(
    ("changes", "error", "problem"),
    [
        ({"entry": "a b"}, UsageError, "not a C function name"),
        ({"entry": "a;system"}, UsageError, "not a C function name"),
        ({"timeout": 0}, UsageError, "timeout is 0 s"),
        ({"arguments": "i"}, UsageError, "the number of values is 0"),
        ({"source": Path("/none/kernel.c")}, StorageError, "cannot be read"),
        ({"source": Path(__file__)}, UsageError, "the name is not a C file's name"),
    ],
)
def test_calls_that_are_wrong(changes, error, problem):
    with pytest.raises(error, match=problem):
        compile_c(OP, **{"source": TWICE, "entry": "twice", **changes})


@needs_cc
def test_a_large_source_is_refused(tmp_path):
    source = tmp_path / "k.c"
    with open(source, "wb") as file:
        file.truncate((8 << 20) + 1)
    with pytest.raises(UsageError, match="larger than 8 MiB"):
        compile_c(OP, source, entry="twice")


def test_a_source_that_is_no_plain_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "kernel.c")
    with pytest.raises(StorageError, match="a device, a pipe or a socket"):
        compile_c(OP, tmp_path / "kernel.c", entry="twice")
