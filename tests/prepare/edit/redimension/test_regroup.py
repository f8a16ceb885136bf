import contextlib
import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdlc.opdefs.shapes import ShapeError
from xdlc.prepare.edit.redimension.regroup import regrouped
from xdlc.prepare.edit.redimension.resize_context import Factor

Shape = tuple[int, ...]


def became(old: Shape, new: Shape, target: Shape) -> list[int]:
    axes = regrouped([(Factor(*pair),) for pair in zip(old, new, strict=True)], target)
    assert [math.prod(part.old for part in axis) for axis in axes] == list(target)
    return [math.prod(part.new for part in axis) for axis in axes]


@pytest.mark.parametrize(
    ("old", "new", "target", "expected"),
    [
        ((1, 7, 7, 512), (4, 7, 7, 512), (1, 25088), [4, 25088]),  # the batch stays the first axis
        ((1, 1, 1, 1280), (4, 1, 1, 1280), (1, 1280), [4, 1280]),
        ((1, 49, 256), (4, 49, 256), (1, 49, 4, 64), [4, 49, 4, 64]),
        ((1, 8, 8, 255), (1, 10, 12, 255), (1, 192, 85), [1, 360, 85]),  # anchors: 85 lies within 255
        ((1, 8, 8, 255), (1, 16, 16, 255), (1, 192, 85), [1, 768, 85]),
        ((1, 8, 8, 6), (1, 10, 10, 6), (1, 64, 3, 2), [1, 100, 3, 2]),
        ((1, 3, 8, 8), (1, 3, 10, 12), (1, 3, 64), [1, 3, 120]),
        ((1, 12, 16), (1, 12, 20), (12, 16), [12, 20]),
        ((1, 12), (5, 12), (12,), [60]),  # one axis is all there is
        ((12, 1), (12, 5), (12,), [60]),
        ((12, 1), (12, 5), (4, 3, 1), [4, 3, 5]),
        ((1, 5), (3, 5), (1, 1, 5), [3, 1, 5]),
        ((6, 4), (9, 4), (3, 2, 4), [3, 3, 4]),  # two thirds of an element are none
        ((2, 3, 4), (2, 3, 4), (4, 6), [4, 6]),
        ((1, 2, 2, 8), (1, 2, 2, 16), (4, 8), [4, 16]),
        ((), (), (1, 1), [1, 1]),
    ],
)
def test_extents_follow(old: Shape, new: Shape, target: Shape, expected: list[int]) -> None:
    assert became(old, new, target) == expected


@pytest.mark.parametrize(
    ("old", "new", "target", "said"),
    [
        ((1, 56, 4), (1, 112, 4), (1, 8, 7, 4), "more than one dimension could"),
        ((1, 64), (1, 100), (1, 8, 8), "no single dimension can"),
        ((1, 1, 1, 8), (1, 2, 2, 8), (1, 8), "its place in the output is ambiguous"),
        ((1, 16, 96), (2, 16, 96), (16, 1, 96), "its place in the output is ambiguous"),  # was a Transpose
        ((3, 1, 4), (3, 2, 4), (3, 4), "its place in the output is ambiguous"),
        ((2, 1, 6), (2, 5, 6), (4, 3), "between the axes that it joins"),
        ((4,), (6,), (3,), "another number of elements"),
    ],
)
def test_open_extents_are_refused(old: Shape, new: Shape, target: Shape, said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        became(old, new, target)


def test_an_axis_made_of_several_comes_apart_again() -> None:
    axes = [(Factor(1, 1),), (Factor(8, 10),), (Factor(8, 12),), (Factor(4, 4),)]
    joined = regrouped(axes, (1, 64, 4))
    assert [math.prod(part.new for part in axis) for axis in joined] == [1, 120, 4]
    again = regrouped(joined, (1, 8, 8, 4))
    assert [math.prod(part.new for part in axis) for axis in again] == [1, 10, 12, 4]


SHAPES = st.lists(st.integers(1, 5), max_size=4)
SEEDS = st.integers(0, 1 << 20)


@given(SHAPES, SHAPES, SEEDS)
def test_elements_are_kept_or_refused(old: list[int], new: list[int], seed: int) -> None:
    new = (new + old[len(new) :])[: len(old)]
    target = _refactored(math.prod(old), Random(seed))
    shape = None
    with contextlib.suppress(ShapeError):
        shape = became(tuple(old), tuple(new), tuple(target))
    if shape is not None:
        assert math.prod(shape) == math.prod(new)
    if old == new:
        assert shape == target


@given(SHAPES, st.integers(2, 5), SEEDS)
def test_a_batch_in_front_goes_on_in_front(rest: list[int], batch: int, seed: int) -> None:
    target = _refactored(math.prod(rest), Random(seed))
    assert became((1, *rest), (batch, *rest), (1, *target)) == [batch, *target]


def _refactored(count: int, random: Random) -> list[int]:
    """Return dims of that many elements."""
    shape = []
    while count > 1 and random.random() < 0.8:
        dim = random.choice([divisor for divisor in range(1, count + 1) if count % divisor == 0])
        shape.append(dim)
        count //= dim
    return [*shape, count] if count > 1 or random.random() < 0.5 else shape
