"""The libraries of ``sample.c``, built once, and Python kernels that do the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.compilers import build_library

SAMPLE = Path(__file__).with_name("sample.c")
PYTHON = '''\
"""Kernels of the package Math."""

import numpy as np

from xdlc.udo import kernel, shape_function


@kernel("Math", "Scale")
def scale(inputs, params, outputs):
    return inputs[0] * np.float32(params.get("factor", params.get("table", [0, 1])[1]))


@kernel("Math", "Sum")
def total(inputs, params, outputs):
    given = [array for array in inputs if array is not None]
    result = np.sum(given, axis=0, dtype=np.float32)
    return result / np.float32(len(given)) if params.get("mode") in (1, "MEAN") else result


@kernel("Math", "Grow")
def grow(inputs, params, outputs):
    return np.concatenate([inputs[0], inputs[0]])
'''


class Libraries:
    """Builds variants of the sample in a folder of their own each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._built: dict[tuple[str, ...], Path] = {}

    def package(self, *flags: str, implementation: tuple[str, ...] = ()) -> Path:
        """Return a registration library with its implementation library beside it."""
        key = (*flags, "|", *implementation)
        if key not in self._built:
            folder = self._folder / str(len(self._built))
            folder.mkdir()
            self._built[key] = build_library(SAMPLE, folder / "libMathReg.so", "-DREGISTRATION", *flags)
            build_library(SAMPLE, folder / "libMathCpu.so", "-DIMPLEMENTATION", *implementation)
        return self._built[key]

    def registration(self, *flags: str) -> Path:
        """Return a registration library that nothing lies beside."""
        folder = self._folder / f"registration{len(self._built)}"
        folder.mkdir(exist_ok=True)
        if flags not in self._built:
            self._built[flags] = build_library(SAMPLE, folder / "libMathReg.so", "-DREGISTRATION", *flags)
        return self._built[flags]

    def single(self, *flags: str) -> Path:
        """Return a library that is both."""
        key = ("single", *flags)
        if key not in self._built:
            target = self._folder / f"libBoth{len(self._built)}.so"
            both = ("-DREGISTRATION", "-DIMPLEMENTATION", f'-DLIBRARY="{target.name}"')
            self._built[key] = build_library(SAMPLE, target, *both, *flags)
        return self._built[key]

    def kernel(self) -> Path:
        """Return a library with a plain kernel, as plugins build them."""
        if ("kernel",) not in self._built:
            self._built["kernel",] = build_library(SAMPLE, self._folder / "kernel.so", "-DPLAIN_KERNEL")
        return self._built["kernel",]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    return Libraries(tmp_path_factory.mktemp("udo"))


@pytest.fixture(scope="session")
def library(libraries: Libraries) -> Path:
    """A registration library that works."""
    return libraries.package()


@pytest.fixture
def python_file(tmp_path: Path) -> Path:
    path = tmp_path / "math_kernels.py"
    path.write_text(PYTHON)
    return path
