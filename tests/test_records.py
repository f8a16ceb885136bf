"""Classes of ``record`` behave as dataclasses with slots."""

import copy
import dataclasses
import pickle
from typing import ClassVar

import pytest

from xdlc.records import record


@record(frozen=True)
class Point:
    x: int
    y: int = 2
    parts: list[int] = dataclasses.field(default_factory=list, compare=False)
    count: ClassVar[int] = 3


@record
class Named:
    name: str
    size: int = 1


@record(eq=False)
class Alone:
    name: str


@record
class Derived(Named):
    size: int = 4
    more: tuple[int, ...] = ()


@record(frozen=True, order=True)
class Version:
    major: int
    minor: int = 0


def test_functions_are_those_of_a_dataclass() -> None:
    assert Point(1) == Point(1, parts=[5]) != Point(2)
    assert hash(Point(1)) == hash(Point(1))
    assert repr(Named("a")) == "Named(name='a', size=1)"
    assert Version(1, 2) < Version(2)
    assert [field.name for field in dataclasses.fields(Point)] == ["x", "y", "parts"]
    assert dataclasses.replace(Point(1), y=5).y == 5
    assert Point(1).__replace__(y=5).y == 5  # type: ignore[attr-defined]
    assert dataclasses.asdict(Derived("a")) == {"name": "a", "size": 4, "more": ()}


def test_hash_and_equality_follow_the_settings() -> None:
    with pytest.raises(TypeError):
        hash(Named("a"))
    assert Alone("a") != Alone("a")
    assert len({Alone("a"), Alone("a")}) == 2


def test_frozen_instances_refuse_changes_and_are_copied() -> None:
    point = Point(1, parts=[4])
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    assert pickle.loads(pickle.dumps(point)).parts == copy.deepcopy(point).parts == [4]


def test_instances_have_slots_only() -> None:
    with pytest.raises(AttributeError):
        Named("a").other = 1  # type: ignore[attr-defined]
    assert Point.count == 3


def test_patterns_match_by_position() -> None:
    match Version(3, 1):
        case Version(major, minor):
            assert (major, minor) == (3, 1)
