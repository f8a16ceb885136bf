"""The package generator as a tool."""

from functools import partial
from pathlib import Path

import pytest

from tests.support import commands
from tests.udo.generator.configs import package, unary
from xdlc.cli.tools.udo_package_generator import main

call = partial(commands.invoke, main)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "c.xml"
    path.write_text(package("Pack", unary("A", backends=("CPU", "AIC"))))
    return path


def test_it_tells_what_was_made(config: Path, tmp_path: Path) -> None:
    said = call("-p", config, "-o", tmp_path / "out").stdout
    core, notice, last = said.splitlines()
    assert core.split() == ["CPU", "A"]
    assert "AIC" in notice
    assert last == f"written: {tmp_path}/out/Pack"


def test_packages_of_several_files(config: Path, tmp_path: Path) -> None:
    other = tmp_path / "d.xml"
    other.write_text(package("Other", unary("B")))
    words = ["--config-path", config, "--config-path", other, "--output-path", tmp_path / "out"]
    assert "notice: -cop has no effect" in call(*words, "-cop").stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["Other", "Pack"]


def test_an_empty_path_is_not_this_folder(config: Path) -> None:
    assert "the path is empty" in call("-p", config, "-o", "", code=2).stderr


def test_force_keeps_what_was_filled_and_says_so(config: Path, tmp_path: Path) -> None:
    call("-p", config, "-o", tmp_path)
    kernel = tmp_path / "Pack/jni/src/CPU/src/ops/A.cpp"
    kernel.write_text("mine")
    (tmp_path / "Pack/Makefile").write_text("changed")
    said = call("-p", config, "-o", tmp_path, code=2).stderr
    assert f"{tmp_path}/Pack: exists" in said
    assert "--force-generation" in said
    said = call("-p", config, "-o", tmp_path, "--force-generation").stdout
    assert "kept: you changed jni/src/CPU/src/ops/A.cpp\n" in said
    assert "replaced: you changed Makefile; the old file is Makefile.old" in said
    assert not kernel.with_name("A.cpp.new").exists()
    config.write_text(config.read_text().replace("<Name>x</Name>", "<Name>image</Name>"))
    said = call("-p", config, "-o", tmp_path, "-f").stdout
    assert "kept: you changed jni/src/CPU/src/ops/A.cpp; the new file is jni/src" in said
    assert kernel.read_text() == "mine"
    assert "image" in kernel.with_name("A.cpp.new").read_text()


def test_a_bad_configuration_is_told_with_its_line(config: Path, tmp_path: Path) -> None:
    config.write_text(
        package("Pack", unary("A")).replace("<OpDef>", "\n\n<OpDef>").replace("FLOAT_32", "FLOAT_33", 1)
    )
    said = call("-p", config, "-o", tmp_path / "out", code=3).stderr
    assert f"{config}:3: " in said
    assert "FLOAT_33" in said
    assert not (tmp_path / "out").exists()
