import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hta_ops import activation, check_equal, encodings, few, one_op, seeds
from xdlc.errors import ConstraintError
from xdlc.ir import ScaleOffset, b8
from xdlc.prepare.hta.compile import compile_section

CORNERS = {
    "asymmetric": {},
    "aligned": {"align_corners": b8(True)},
    "half pixel": {"half_pixel_centers": b8(True)},
}
EXTENTS = [
    ((4, 4), (8, 8)),
    ((4, 5), (12, 7)),
    ((8, 8), (4, 4)),
    ((1, 1), (5, 5)),
    ((7, 9), (20, 31)),
    ((3, 3), (3, 3)),
]


@pytest.mark.parametrize("kind", ["ResizeBilinear", "ResizeNearestNeighbor"])
@pytest.mark.parametrize("corners", CORNERS)
@given(st.data(), st.sampled_from(EXTENTS), seeds)
@few
def test_images_of_other_extents(kind, corners, data, extents, seed):
    bits = data.draw(st.sampled_from([8, 16]))
    before = data.draw(encodings(bits))
    after = data.draw(st.one_of(st.just(before), encodings(bits)))
    (rows, columns), (tall, wide) = extents
    source = activation("x", (1, rows, columns, 3), before, bits)
    target = activation("y", (1, tall, wide, 3), after, bits)
    check_equal(one_op(kind, [source], target, CORNERS[corners]), seed)


@pytest.mark.parametrize(("tall", "wide"), [(5, 14), (10, 7)])
@pytest.mark.parametrize("corners", CORNERS)
def test_one_axis_is_resized(tall, wide, corners):
    """Sums are then added in another order, which shows in ties."""
    for seed in range(6):
        source = activation("x", (1, 5, 7, 40), ScaleOffset(0.0371, -77))
        graph = one_op(
            "ResizeBilinear",
            [source],
            activation("y", (1, tall, wide, 40), source.encoding),
            CORNERS[corners],
        )
        check_equal(graph, seed)


def test_ties_are_decided_as_on_the_host():
    source = activation("x", (1, 16, 16, 8), ScaleOffset(0.16227209568023682, -197))
    check_equal(one_op("ResizeBilinear", [source], activation("y", (1, 64, 64, 8), source.encoding)))


@pytest.mark.parametrize("kind", ["ResizeBilinear", "ResizeNearestNeighbor"])
def test_what_is_no_image_is_refused(kind):
    source = activation("x", (1, 4, 2), ScaleOffset(0.02, -7))
    with pytest.raises(ConstraintError, match="should be of rank 4"):
        compile_section(one_op(kind, [source], activation("y", (1, 8, 2), source.encoding)))


def test_smoothing_is_refused():
    source = activation("x", (1, 4, 4, 2), ScaleOffset(0.02, -7))
    target = activation("y", (1, 2, 2, 2), source.encoding)
    with pytest.raises(ConstraintError, match="smoothed"):
        compile_section(one_op("ResizeBilinear", [source], target, {"antialias": b8(True)}))


def test_tiny_weights_keep_fewer_bits():
    """Coordinates a rounding error away from a pixel give weights of almost nothing."""
    source = activation("x", (1, 3, 47, 5), ScaleOffset(0.013, -100))
    for wide in (141, 329, 53):
        target = activation("y", (1, 7, wide, 5), source.encoding)
        check_equal(one_op("ResizeBilinear", [source], target, {"half_pixel_centers": b8(True)}), wide)
