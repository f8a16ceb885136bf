from __future__ import annotations

import sys
from pathlib import Path

import pytest

from xdlc.registry import Registry


@pytest.fixture
def numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Return the name of a package whose modules register numbers."""
    name = f"numbers_of_{request.node.name.split('[')[0]}"
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text(
        f"from xdlc.registry import Registry\nKNOWN = Registry({name!r}, 'number')\n"
    )
    (package / "one.py").write_text(f"from {name} import KNOWN\nKNOWN.add('one', 1)\n")
    (package / "few.py").write_text(
        f"from {name} import KNOWN\n@KNOWN.register('two', 'three')\ndef few(): pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_modules_are_imported_when_it_is_first_read(numbers: str) -> None:
    registry = __import__(numbers).KNOWN
    assert f"{numbers}.one" not in sys.modules
    assert registry.find("one") == 1
    few = sys.modules[f"{numbers}.few"].few
    assert registry.all() == {"one": 1, "two": few, "three": few}
    assert registry.find("four") is None


def test_what_is_given_out_cannot_be_changed(numbers: str) -> None:
    held = __import__(numbers).KNOWN.all()
    with pytest.raises(TypeError):
        held["four"] = 4


def test_the_same_again_is_no_second() -> None:
    registry: Registry[str, object] = Registry("xdlc.runtime.ops", "number")
    one = object()
    registry.add("one", one)
    registry.add("one", one)
    assert registry.find("one") is one


@pytest.mark.parametrize(("key", "shown"), [("one", "one"), (("a", "one"), r"a\.one")])
def test_another_under_one_key_is_refused(key: object, shown: str) -> None:
    registry: Registry[object, object] = Registry("xdlc.runtime.ops", "number")
    registry.add(key, object())
    with pytest.raises(ValueError, match=f"there is a number of {shown} already"):
        registry.register("other", key)(object())
