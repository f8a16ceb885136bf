"""Plans of sums give the host's integers, for all pairs of operands."""

import numpy as np
import pytest

from tests.hta_models import both, operation


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
