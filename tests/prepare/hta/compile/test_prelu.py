import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hta_ops import activation, check_equal, encodings, few, one_op, seeds
from xdlc.errors import ConstraintError
from xdlc.ir import ScaleOffset, static
from xdlc.ir.dtype import UFIXED8
from xdlc.prepare.hta.compile import compile_section

SHAPE = (1, 5, 7, 3)


@given(st.data(), seeds)
@few
def test_slopes_per_channel_or_one_for_all(data, seed):
    bits = data.draw(st.sampled_from([8, 16]))
    slopes = data.draw(st.sampled_from([[200], [3, 200, 3], [0, 255, 90]]))
    slope = static("slope", np.array(slopes, np.uint8), UFIXED8, ScaleOffset(0.003, -20))
    source = activation("x", SHAPE, data.draw(encodings(bits)), bits)
    check_equal(
        one_op("Prelu", [source, slope], activation("y", SHAPE, data.draw(encodings(bits)), bits)), seed
    )


@given(encodings(), encodings(), seeds)
@few
def test_computed_slopes(first, second, seed):
    inputs = [activation("x", SHAPE, first), activation("slope", (3,), second)]
    check_equal(one_op("Prelu", inputs, activation("y", SHAPE, first)), seed)


def test_computed_slopes_of_16_bits_are_refused():
    encoding = ScaleOffset(0.02, -100)
    inputs = [activation("x", SHAPE, encoding, 16), activation("slope", (3,), encoding, 16)]
    with pytest.raises(ConstraintError, match="too many slopes for ufixed16"):
        compile_section(one_op("Prelu", inputs, activation("y", SHAPE, encoding, 16)))
