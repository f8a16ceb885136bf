import numpy as np
import pytest

RELU = 4


@pytest.fixture
def model(net):
    """A float network of convolutions, one depthwise, and a product with a bias."""
    n = net(1, 8, 8, 3)
    first = n.neuron(n.conv(n.x, 8, "c1"), RELU, "r1")
    second = n.neuron(n.conv(first, 1, "c2"), RELU, "r2")
    flat = n.reshape(second, (4, 16), "flat")
    product = n.op("MatMul", [flat, n.weights("w", 16, 5)], (4, 5), "product")
    total = n.binary(product, n.weights("b", 1, 5), 0, "total")
    return n.done(n.neuron(total, 6, "y"))


@pytest.fixture
def samples():
    rng = np.random.default_rng(5)
    return [{"x": rng.standard_normal((1, 8, 8, 3)).astype(np.float32)} for _ in range(3)]
