import numpy as np
import pytest
from hypothesis import settings

from tests.quant.udo_models import KERNELS
from xdlc.ir import Graph, Model, Tensor, b8, make_op, static, u32, u32s
from xdlc.ir.dtype import FLOAT32
from xdlc.quant import quantize
from xdlc.quant.calibration.calibrate import calibrated
from xdlc.quant.engine import Engine
from xdlc.quant.options import QuantOptions
from xdlc.quant.plan import Plan
from xdlc.quant.samples import Samples

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def window(*, stride=1, pad=0, axes=2):
    """Return the parameters of a window: its stride and padding on all sides."""
    sides = {"stride": [stride] * axes, "dilation": [1] * axes, "pad_amount": [[pad, pad]] * axes}
    return {name: u32s(values) for name, values in sides.items()}


class Net:
    """Builds float graphs op by op."""

    def __init__(self, *shape):
        self.graph = Graph("net")
        self.rng = np.random.default_rng(0)
        self.x = self.graph.add_input(Tensor("x", shape, FLOAT32))

    def op(self, type, inputs, shape, name, package="qti.aisw", **params):
        out = Tensor(name, shape, FLOAT32)
        self.graph.append(
            make_op(self.graph, type, inputs, [out], params, name=f"{name}_op", package=package)
        )
        return out

    def weights(self, name, *shape, scale=1.0):
        return static(name, (self.rng.standard_normal(shape) * scale).astype(np.float32))

    def conv(self, x, cout, name, *, kernel=3, bias=True):
        pad, cin = kernel // 2, x.shape[-1]
        inputs = [x, self.weights(f"{name}_w", kernel, kernel, cin, cout)]
        if bias:
            inputs.append(self.weights(f"{name}_b", cout))
        return self.op(
            "Conv2d",
            inputs,
            (*x.shape[:-1], cout),
            name,
            **window(pad=pad),
            group=u32(1),
        )

    def neuron(self, x, operation, name, **params):
        return self.op("ElementWiseNeuron", [x], x.shape, name, operation=u32(operation), **params)

    def binary(self, x, y, operation, name):
        return self.op("ElementWiseBinary", [x, y], x.shape, name, operation=u32(operation))

    def concat(self, tensors, name):
        shape = (*tensors[0].shape[:-1], sum(tensor.shape[-1] for tensor in tensors))
        return self.op("Concat", tensors, shape, name, axis=u32(len(shape) - 1))

    def mean(self, x, name):
        shape = (x.shape[0], x.shape[3])
        return self.op("ReduceMean", [x], shape, name, axes=u32s([1, 2]), keep_dims=b8(False))

    def reshape(self, x, shape, name):
        return self.op("Reshape", [x], shape, name)

    def done(self, *outputs):
        for tensor in outputs:
            self.graph.add_output(tensor)
        self.graph.verify()
        model = Model()
        model.add_graph(self.graph)
        return model

    def samples(self, count, seed=1, scale=1.0):
        rng = np.random.default_rng(seed)
        return [{"x": (rng.standard_normal(self.x.shape) * scale).astype(np.float32)} for _ in range(count)]


def one_bias(net):
    """Return two convolutions in a row that read one bias, "first_b"."""
    n = net(1, 8, 8, 4)
    first = n.conv(n.x, 4, "first", kernel=1)
    second = n.conv(first, 4, "y", kernel=1)
    n.graph.set_inputs(second.producer, [*second.producer.inputs[:2], first.producer.inputs[2]])
    return n, n.done(second)


def decided_plan(model, samples, *, precision=None, **options):
    """Return the decided plan of a model, which it changes, and its calibration."""
    plan = Plan.of(model, QuantOptions(**options), precision)
    calibration = calibrated(plan, Samples(samples), Engine())
    return plan.decided(calibration), calibration


@pytest.fixture
def net():
    return Net


@pytest.fixture
def decided():
    """Return a function that calibrates a model and gives its activations' forms."""

    def decide(model, samples, **options):
        plan, _ = decided_plan(model, samples, **options)
        forms = {tensor.name: form for tensor, form in plan.decision.activations.items()}
        return forms, {tensor.name: source for tensor, source in plan.decision.sources.items()}

    return decide


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernels") / "pkg.py"
    path.write_text(KERNELS)
    return path


@pytest.fixture
def quantized(kernels):
    """Return a function that quantizes with kernels and gives model and notes."""

    def run(model, samples, **options):
        notes, given = [], {"act_quantizer_calibration": "min-max", "udo_package_path": str(kernels)}
        made = quantize(model, samples, notify=notes.append, **{**given, **options})
        made.main.verify()
        return made, notes

    return run
