"""Element-wise operators and reductions against PyTorch: types, values, axes."""

import itertools
import math

import numpy as np
import pytest

import xdlc

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore::UserWarning")]

UNARY = """
    abs acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1
    floor frac isfinite isinf isnan isneginf isposinf lgamma log log10 log1p log2 logical_not nan_to_num neg
    rad2deg reciprocal relu round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc
"""
BINARY = """
    add sub mul div floor_divide remainder fmod pow maximum minimum fmax fmin atan2 copysign hypot logaddexp
    heaviside ldexp eq ne lt le gt ge isclose logical_and logical_xor bitwise_and bitwise_or bitwise_xor
    xlogy
"""
REDUCTIONS = """
    sum mean nansum nanmean prod amax amin std var all any count_nonzero argmax argmin logsumexp median cumsum
    cumprod cummax logcumsumexp norm aminmax softmax sort
"""


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def check(torch, tmp_path, functions, inputs):
    """Compare all functions that PyTorch has for the inputs, in one program."""

    def accepted(function):
        try:
            function(*inputs)
        except (RuntimeError, TypeError, IndexError):
            return False
        return True

    used = {name: function for name, function in functions.items() if accepted(function)}
    names = []

    class Net(torch.nn.Module):
        def forward(self, *given):
            outputs = []
            for name, function in used.items():
                result = function(*given)
                each = list(result) if isinstance(result, tuple) else [result]
                names.extend([name] * len(each))
                outputs += each
            return tuple(outputs)

    with torch.no_grad():
        want = Net()(*inputs)
        path = tmp_path / "net.pt2"
        torch.export.save(torch.export.export(Net(), tuple(inputs)), path)
    model = xdlc.convert(path)
    feeds = {tensor.name: x.numpy() for tensor, x in zip(model.main.inputs, inputs, strict=True)}
    got = xdlc.run(model, feeds)
    assert used
    for name, tensor, expected in zip(names, model.main.outputs, want, strict=False):
        one, other = got[tensor.name], expected.numpy()
        assert (one.shape, one.dtype.kind) == (other.shape, other.dtype.kind), name
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6, err_msg=name)


def samples(torch):
    """Return tensors of each type that promotion distinguishes, divisors not 0."""
    torch.manual_seed(1)
    whole = torch.tensor([[-4, 3, 1], [2, -1, 5]])
    return {
        "float": torch.randn(2, 3),
        "int64": whole,
        "int32": whole.int().flip(1),
        "uint8": whole.abs().to(torch.uint8),
        "bool": whole > 0,
        "float scalar": torch.tensor(2.5),
        "int scalar": torch.tensor(3),
    }


@pytest.mark.parametrize("kind", ["odd", "float", "int64", "uint8", "bool", "float scalar", "int scalar"])
def test_functions_of_one_tensor(torch, tmp_path, kind):
    odd = torch.tensor([-math.inf, -7.5, -1.0, -0.0, 0.0, 0.5, 2.5, 80.0, math.inf, math.nan])
    x = odd if kind == "odd" else samples(torch)[kind]
    check(torch, tmp_path, {name: getattr(torch, name) for name in UNARY.split()}, [x])


PAIRS = [("odd", "odd"), ("float", "int64"), ("int64", "int32"), ("uint8", "int32"), ("float", "bool")]
PAIRS += [
    ("int64", "float scalar"),
    ("float scalar", "int64"),
    ("uint8", "int scalar"),
    ("bool", "int scalar"),
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_functions_of_two_tensors(torch, tmp_path, first, second):
    if first == "odd":
        odd = [-math.inf, -2.5, -1.0, -0.0, 0.0, 1.0, 3.0, math.inf, math.nan]
        pair = list(torch.tensor(list(itertools.product(odd, repeat=2))).T.contiguous())
    else:
        pair = [samples(torch)[first], samples(torch)[second]]
    names = [
        name
        for name in BINARY.split()
        if second != "bool" or name not in ("remainder", "fmod", "floor_divide")
    ]
    functions = {name: getattr(torch, name) for name in names if name != "pow" or first != "int64"}
    if second == "bool":
        functions.pop("div")
    check(torch, tmp_path, functions, pair)


AXES = [*itertools.product(["float", "int64", "bool"], [None, 0, -1, (0, 1), ()])]
AXES += [*itertools.product(["float scalar"], [None, 0, -1, ()])]


@pytest.mark.parametrize(("kind", "dim"), AXES)
def test_reductions(torch, tmp_path, kind, dim):
    keywords = [{}] if dim is None else [{"dim": dim}, {"dim": dim, "keepdim": True}]
    functions = {
        f"{name} {given}": lambda x, name=name, given=given: getattr(torch, name)(x, **given)
        for name in REDUCTIONS.split()
        for given in keywords
    }
    check(torch, tmp_path, functions, [samples(torch)[kind]])
