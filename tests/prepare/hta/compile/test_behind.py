"""Functions behind products, which nothing is rounded before: exact arithmetic, and the host's but for ties.

The host computes such pairs in single precision, so that one result in ten thousands, next to the middle
between two steps, is a step off exact arithmetic.
"""

from fractions import Fraction

import numpy as np
import pytest

from tests.hta_models import activated, both
from xdlc.ir.quantization import float_data
from xdlc.prepare.hta.compile import compile_section
from xdlc.runtime.hta.session import PlanSession

ROWS = dict(shape=(900, 30), units=20)
IMAGE = dict(extents=(40, 40))
CASES = {
    "convolution, Prelu": ("Conv2d", "Prelu", IMAGE),
    "depthwise, Prelu": ("DepthWiseConv2d", "Prelu", IMAGE | dict(channels=6)),
    "rows, Prelu": ("FullyConnected", "Prelu", ROWS),
    "convolution, HardSwish": ("Conv2d", "HardSwish", IMAGE),
    "depthwise, HardSwish": ("DepthWiseConv2d", "HardSwish", IMAGE | dict(channels=6)),
    "convolution, Relu of other range": ("Conv2d", "Relu", IMAGE | dict(zero=40)),
    "rows, Relu": ("FullyConnected", "Relu", ROWS | dict(rounded_too=True)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("biased", ["steps", "float"])
def test_function_behind_a_product(case, biased):
    kind, function, options = CASES[case]
    rng = np.random.default_rng(3)
    found, expected = both(activated(rng, kind, function, biased=biased, **options), rng)
    for name in expected:
        difference = np.abs(found[name].astype(int) - expected[name])
        assert np.ptp(expected[name]) > 50
        assert difference.max() <= 1
        assert np.count_nonzero(difference) <= difference.size // 5000


@pytest.mark.parametrize("kind", ["Conv2d", "FullyConnected"])
@pytest.mark.parametrize("form", ["channels", "unsigned"])
@pytest.mark.parametrize("biased", ["steps", "byte", "none"])
def test_a_relu_that_storing_does_gives_the_integers_of_the_host(kind, form, biased):
    rng = np.random.default_rng(4)
    found, expected = both(activated(rng, kind, "Relu", form=form, biased=biased), rng)
    np.testing.assert_array_equal(found["z"], expected["z"])


@pytest.mark.parametrize("function", ["Prelu", "HardSwish", "Relu"])
def test_functions_are_exact(function):
    rng = np.random.default_rng(6)
    graph = activated(rng, "FullyConnected", function, shape=(60, 30), units=8, zero=30)
    x = rng.integers(0, 256, (60, 30)).astype(np.uint8)
    found = PlanSession(compile_section(graph)).run({"x": x})["z"]
    tensors = graph.tensors
    entry, result = tensors["x"].encoding, tensors["z"].encoding
    sums = (x.astype(int) + entry.offset) @ tensors["w"].numpy().T.astype(int) + tensors["b"].numpy()
    slopes = (
        [Fraction(float(slope)) for slope in float_data(tensors["slopes"]).numpy()]
        if function == "Prelu"
        else []
    )
    for (row, unit), total in np.ndenumerate(sums):
        real = int(total) * Fraction(entry.scale) * Fraction(tensors["w"].encoding.scales[unit])
        if function == "Relu":
            real = max(real, Fraction(0))
        elif function == "Prelu":
            real = real if real > 0 else real * slopes[unit]
        else:
            real = real * min(max(real + 3, Fraction(0)), Fraction(6)) / 6
        stored = round(real / Fraction(result.scale)) - result.offset
        assert found[row, unit] == min(max(stored, 0), 255)


def test_a_stated_model_rounds_between():
    rng = np.random.default_rng(7)
    found, expected = both(activated(rng, "Conv2d", "Prelu"), rng, stated=True)
    np.testing.assert_array_equal(found["z"], expected["z"])
