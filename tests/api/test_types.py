import re
from pathlib import Path

import pytest

import xdlc

HERE = Path(__file__).parent


@pytest.mark.slow
def test_types_of_the_interface_are_complete_and_refuse_wrong_uses(tmp_path: Path) -> None:
    checker = pytest.importorskip("mypy.api")
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nstrict = True\nmypy_path = {Path(xdlc.__file__).parents[1]}\nfollow_imports = silent\n"
        "ignore_missing_imports = True\n"
    )
    wrong = HERE / "wrong_uses.py"
    config = ["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path / "cache")]
    text, complaint, _ = checker.run([*config, str(HERE / "client.py"), str(wrong)])
    found = set(re.findall(r"(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", text, re.MULTILINE))
    lines = enumerate(wrong.read_text().splitlines(), 1)
    expected = {(wrong.name, str(at), line.rpartition("# ")[2]) for at, line in lines if "  # " in line}
    assert found == expected, text + complaint
    assert (Path(xdlc.__file__).parent / "py.typed").is_file()
