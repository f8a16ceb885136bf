"""Packages as they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from xdlc.errors import UsageError
from xdlc.udo.generator import generate, generate_files

CONFIG = """<OpDefCollection PackageName="Small" Domain="example" Version="1.0"><OpDefList><OpDef>
<Name>Twice</Name>
<Input><Name>in[0]</Name><Mandatory>true</Mandatory><Datatype>FLOAT_32</Datatype>
<Shape><Rank>ND</Rank></Shape></Input>
<Output><Name>out[0]</Name><Mandatory>true</Mandatory><Datatype>FLOAT_32</Datatype>
<Shape><Rank>ND</Rank></Shape></Output>
<SupportedBackend>CPU</SupportedBackend>
</OpDef></OpDefList></OpDefCollection>
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.xml"
    path.write_text(CONFIG)
    return path


def test_a_package_is_not_overwritten(config: Path, tmp_path: Path) -> None:
    generate_files([config], tmp_path / "out")
    with pytest.raises(UsageError, match="exists"):
        generate_files([config], tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["Small"]


def test_the_same_definitions_give_the_same_files(config: Path, tmp_path: Path) -> None:
    from xdlc.opdefs import read_valid

    collection = read_valid(config)
    (one,), (other,) = generate([collection], tmp_path / "a"), generate([collection], tmp_path / "b")
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(other) for path in other.rglob("*") if path.is_file())
    assert all((one / path).read_bytes() == (other / path).read_bytes() for path in files)
