"""Packages with the worst names, texts and defaults: built without a warning."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy
import pytest

from tests.udo.generator.configs import op, operand, package, unary
from xdlc.errors import BackendError
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.loader import read_collection
from xdlc.runtime.udo import Kernels
from xdlc.udo.generator import generate

HOSTILE = 'x */ /* " \\ ??/ {{ package.name }} {% raw %} $(touch evil) `touch evil` %s \u202e'
ENUM = ("A", "EOF", "NULL", "a b", "EDOM", "int", "9", "é", "M_PI", 'q"\\', "ModeEnum")

OPS = (
    op(
        "int",
        operand("Input", "class"),
        operand("Input", "in[0]"),
        operand("Input", "in_0", optional=True),
        operand("Output", "Outputs"),
        operand("Output", "out", optional=True),
        operand("Parameter", "Params", "INT_32", "SCALAR", optional=True),
        operand("Parameter", "ModeEnum", "UINT_32", "SCALAR", optional=True, values=ENUM),
        operand("Parameter", "mode", "UINT_32", "SCALAR", optional=True, default="B", values=("A", "B")),
        operand("Parameter", HOSTILE, "STRING", "SCALAR", optional=True, default=HOSTILE),
        text=HOSTILE,
    ),
    op(
        "udo",
        operand("Input", "std", "INT_8,UINT_8,FLOAT_32"),
        operand("Output", "udo", "BOOL_8"),
        operand("Parameter", "signed", "BOOL_8", "SCALAR", optional=True, default="1"),
        operand("Parameter", "errno", "INT_64", "SCALAR", optional=True, default="-9223372036854775808"),
        operand("Parameter", "u64", "UINT_64", "SCALAR", optional=True, default="18446744073709551615"),
        operand("Parameter", "i32", "INT_32", "SCALAR", optional=True, default="-2147483648"),
        operand("Parameter", "u32", "UINT_32", "SCALAR", optional=True, default="4294967295"),
        operand("Parameter", "f", "FLOAT_32", "SCALAR", optional=True, default="1e-30"),
        operand("Parameter", "d", "FLOAT_64", "SCALAR", optional=True, default="-inf"),
        operand("Parameter", "mixed", "INT_32,FLOAT_32", "SCALAR", optional=True),
        operand("Parameter", "half", "FLOAT_16", "1D", optional=True, default="[1.5, -2]"),
        operand("Parameter", "i8", "INT_8", "2D", optional=True, default="{{1, -2}, {3, 4}}"),
        operand("Parameter", "flags", "BOOL_8", "1D", optional=True, default="(0, 1)"),
        operand("Parameter", "open", "INT_64", "ND", optional=True),
    ),
    op(
        "namespace",
        operand("Input", "x", "UFIXED_POINT_8,FLOAT_16"),
        operand("Input", "w", "UFIXED_POINT_8", "2D", more="<IsStaticTensor>true</IsStaticTensor>"),
        operand("Input", "more", more="<Repeated>true</Repeated>"),
        operand("Output", "ys", "FLOAT_64,INT_32", more="<Repeated>true</Repeated>"),
    ),
    unary("Makefile"),
    unary("_under__score"),
)


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("make") and shutil.which("g++")), reason="needs make and g++")
def test_it_is_built_and_loaded(tmp_path: Path) -> None:
    config = tmp_path / "c.xml"
    config.write_text(package("operator", *OPS, version=HOSTILE))
    (folder,) = generate([read_collection(config)], tmp_path / "$(touch evil) a b")
    done = subprocess.run(
        ["make", "-j2", "CXXFLAGS=-O0"],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    with Kernels(folder / "libs/x86-64_linux_clang/libUdooperatorReg.so") as kernels:
        graph = Graph("g")
        x = graph.add_input(Tensor("x", (1, 1, 1, 2), FLOAT32))
        y = graph.add_tensor(Tensor("y", (1, 1, 1, 2), FLOAT32))
        op = graph.append(Op("_under__score", [x], [y], name="o", package="operator"))
        with pytest.raises(BackendError, match="fill execute of _under__score"):
            kernels.operation(op).run([numpy.zeros((1, 1, 1, 2), numpy.float32)])
    assert not any(path.name == "evil" for path in tmp_path.rglob("*"))
    for script in folder.rglob("*.py"):
        compile(script.read_text(), str(script), "exec")


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_thirty_ops_go_into_one_library(tmp_path: Path) -> None:
    config = tmp_path / "c.xml"
    config.write_text(package("Many", *(unary(f"Op{number}") for number in range(30))))
    (folder,) = generate([read_collection(config)], tmp_path)
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
    includes = ["-Iinclude", "-isystem", "include/standin", "-Ijni/src/CPU/include", "-Ijni/src/CPU/src"]
    sources = [
        "jni/src/CPU/src/ManyInterface.cpp",
        "jni/src/reg/ManyRegLib.cpp",
        "jni/src/utils/ManyDefinitions.cpp",
    ]
    subprocess.run(["g++", *flags, *includes, *sources], cwd=folder, check=True, timeout=300)
