"""Plans of sums give the host's integers, for all pairs of operands."""

import numpy as np
import pytest

from tests.hta_models import both, operation
from xdlc.errors import ConstraintError
from xdlc.ir import ScaleOffset
from xdlc.prepare.hta.compile import compile_section


@pytest.mark.parametrize("seed", range(4))
def test_a_sum_of_8_bits(seed):
    rng = np.random.default_rng(seed)
    graph = operation(rng, "ElementWiseAdd", ((1, 64, 64, 8), (1, 64, 64, 8)))
    found, expected = both(graph, rng)
    np.testing.assert_array_equal(found["y"], expected["y"])


def test_a_sum_is_broadcast():
    rng = np.random.default_rng(2)
    found, expected = both(operation(rng, "ElementWiseAdd", ((1, 3, 4, 5), (1, 1, 1, 5))), rng)
    np.testing.assert_array_equal(found["y"], expected["y"])


@pytest.mark.parametrize("kind", ["ElementWiseAdd", "ElementWiseSubtract"])
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("stated", [False, True])
def test_sums_and_differences(kind, bits, stated):
    rng = np.random.default_rng(9)
    graph = operation(rng, kind, ((1, 64, 64, 5), (1, 64, 64, 5)), bits)
    found, expected = both(graph, rng, stated=stated)
    np.testing.assert_array_equal(found["y"], expected["y"])


def test_scales_too_far_apart_are_refused():
    graph = operation(np.random.default_rng(1), "ElementWiseAdd", ((1, 2), (1, 2)))
    graph.tensors["y"].encoding = ScaleOffset(1e-9)
    with pytest.raises(ConstraintError, match="too far"):
        compile_section(graph)
