"""xdlc-net-run on models with user-defined operations."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tests.runtime.udo.conftest import PYTHON, SAMPLE
from tests.runtime.udo.kernel_meta import call, written
from tests.runtime.udo.udo_graphs import between_relus
from tests.support.compilers import build_library, needs_cc
from xdlc import api
from xdlc.cli.tools.net_run import main
from xdlc.errors import UsageError
from xdlc.ir import Model, f32
from xdlc.opdefs.source_match import Kernel
from xdlc.runtime.udo.sources import MACHINE

X = np.float32([[-1, 2, 3], [4, -5, 6]])
EXPECTED = np.maximum(X, 0) * 3


@pytest.fixture
def model() -> Model:
    return Model({"graph": between_relus("Scale", {"factor": f32(3)})})


@pytest.fixture
def python_file(tmp_path: Path) -> Path:
    path = tmp_path / "math_kernels.py"
    path.write_text(PYTHON)
    return path


def compiled(model: Model, folder: Path) -> Path:
    library = build_library(SAMPLE, folder / "kernel.so", "-DPLAIN_KERNEL")
    values = (3, 0.0, "", np.zeros(2, np.float32))
    kernel = Kernel("plain", "plain_kernel", "ifso", values, f"linux-{MACHINE}", "cc 1", library.read_bytes())
    return written(folder, call(model, kernel, "custom"))


def net_run(folder: Path, model: Model, *options: object) -> Result:
    model.save(folder / "model.dlc")
    X.tofile(folder / "x.raw")
    (folder / "list.txt").write_text(f"{folder / 'x.raw'}\n" * 2)
    arguments = ["--container", folder / "model.dlc", "--input-list", folder / "list.txt"]
    every = [*arguments, "--output-dir", folder / "out", *options]
    return CliRunner().invoke(main, list(map(str, every)))


def test_a_python_kernel(tmp_path: Path, model: Model, python_file: Path) -> None:
    done = net_run(tmp_path, model, "--udo-package-path", python_file, "--set-output-tensors", "after")
    assert done.exit_code == 0, done.output
    for name in ("y", "after"):
        got = np.fromfile(tmp_path / f"out/Result_1/{name}.raw", np.float32)
        np.testing.assert_array_equal(got, EXPECTED.reshape(-1))


@needs_cc
def test_a_library_and_a_file_that_is_not_needed(tmp_path: Path, model: Model, python_file: Path) -> None:
    library = build_library(
        SAMPLE, tmp_path / "both.so", "-DREGISTRATION", "-DIMPLEMENTATION", '-DLIBRARY="both.so"'
    )
    python_file.write_text(python_file.read_text().replace('"Math"', '"Other"'))
    done = net_run(tmp_path, model, "--udo-package-path", f"{library},{python_file}")
    assert done.exit_code == 0, done.output
    assert f"{python_file} is unused" in done.output
    np.testing.assert_array_equal(
        np.fromfile(tmp_path / "out/Result_0/y.raw", np.float32), EXPECTED.reshape(-1)
    )


def test_without_a_kernel_the_op_is_told_and_nothing_is_written(tmp_path: Path, model: Model) -> None:
    done = net_run(tmp_path, model)
    assert done.exit_code == 4
    assert "op 'custom' (Math::Scale): there is no kernel for Math::Scale" in done.output
    assert "--udo-package-path" in done.output
    assert not (tmp_path / "out").exists()


@needs_cc
def test_a_compiled_kernel_of_a_plugin(tmp_path: Path, model: Model) -> None:
    done = net_run(tmp_path, model, "--udo-package-path", compiled(model, tmp_path))
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(
        np.fromfile(tmp_path / "out/Result_0/y.raw", np.float32), EXPECTED.reshape(-1)
    )


@needs_cc
def test_python_precedes_a_compiled_kernel(tmp_path: Path, model: Model, python_file: Path) -> None:
    python_file.write_text(PYTHON.replace("return inputs[0] *", "return inputs[0] * 0 +"))
    folder = compiled(model, tmp_path)
    done = net_run(tmp_path, model, "--udo-package-path", f"{folder},{python_file}")
    assert done.exit_code == 0, done.output
    assert f"{folder / 'plain.json'} is unused" in done.output
    np.testing.assert_array_equal(np.fromfile(tmp_path / "out/Result_0/y.raw", np.float32), np.full(6, 3))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--allow-embedded-kernels",), "write --udo-package-path kernel_meta"),
        (("--udo-timeout", "5"), "--udo-timeout"),
        (("--udo-package-path", "/nowhere/lib.so"), "/nowhere/lib.so: the file does not exist"),
        (("--udo-package-path", "{file},{file}"), "appears twice"),
        (("--udo-package-path", "{file}", "--udo-timeout", "0"), "time-out"),
        (("--udo-package-path", "{file}", "--udo-timeout", "nan"), "udo_timeout is nan"),
    ],
)
def test_options_that_make_no_sense(
    tmp_path: Path, model: Model, python_file: Path, options: tuple[str, ...], said: str
) -> None:
    done = net_run(tmp_path, model, *(option.format(file=python_file) for option in options))
    assert done.exit_code == 2
    assert said in done.output


def test_a_kernel_that_takes_too_long(tmp_path: Path, model: Model, python_file: Path) -> None:
    python_file.write_text(
        PYTHON.replace("def scale(inputs, params, outputs):", "def scale(i, p, o):\n    while True: pass")
    )
    done = net_run(tmp_path, model, "--udo-package-path", python_file, "--udo-timeout", "1")
    assert done.exit_code == 7
    assert "executing it did not end within 1 s" in done.output
    assert str(python_file) in done.output
    assert not (tmp_path / "out").exists()


def test_the_python_interface_takes_the_same_options(model: Model, python_file: Path) -> None:
    for given in (python_file, str(python_file), [python_file]):
        got = api.run(model, {"x": X}, udo_package_path=given, udo_timeout=30)
        np.testing.assert_array_equal(got["y"], EXPECTED)
    with pytest.raises(UsageError, match="kernels="):
        api.run(model, {"x": X}, udo_package_path=python_file, kernels=object())
