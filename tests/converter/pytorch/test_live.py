"""Networks of PyTorch in memory, and files that torch exports to ONNX."""

from __future__ import annotations

import gc
import importlib.util
import json
import math
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import xdlc
from tests.converter.pytorch.programs import TinyProgram
from xdlc.errors import UnsupportedOp, UsageError

X = np.linspace(-1, 1, 192, dtype=np.float32).reshape(1, 3, 8, 8)


def test_inputs_of_modules_are_refused_for_files(tmp_path):
    made = TinyProgram()
    path = made.op("relu", made.input("x", (1, 3))) and made.write(tmp_path)
    with pytest.raises(UsageError):
        xdlc.convert(path, example_inputs=(X,))


@pytest.mark.parametrize("options", [{"torch_exporter": "onnx"}, {"torch_exporter": "other", "trust": True}])
def test_a_file_is_loaded_by_torch_only_if_trusted(tmp_path, monkeypatch, options):
    made = TinyProgram()
    made.op("relu", made.input("x", (1, 3)))
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("a process was started"))
    with pytest.raises(UsageError):
        made.convert(tmp_path, importer_options=options)


@pytest.mark.parametrize(
    ("printed", "kind"),
    [
        (json.dumps({"error": "RuntimeError: operator torchvision::nms does not exist"}), UsageError),
        (json.dumps({"error": "ModuleNotFoundError: No module named 'torch'"}), UsageError),
        (json.dumps({"error": "ValueError: no"}), UnsupportedOp),
        ("", UnsupportedOp),
    ],
)
def test_errors_of_the_process_that_loads(tmp_path, monkeypatch, printed, kind):
    builder = TinyProgram()
    builder.op("relu", builder.input("x", (1, 3)))
    done = types.SimpleNamespace(returncode=1, stdout=printed, stderr="")
    monkeypatch.setattr("subprocess.run", lambda *_, **__: done)
    with pytest.raises(kind) as caught:
        builder.convert(tmp_path, importer_options={"torch_exporter": "onnx", "trust": True})
    assert caught.value.fix


def test_a_module_without_torch(monkeypatch):
    module = type("Net", (type("Module", (), {"__module__": "torch.nn.modules.module"}),), {})()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match="torch"):
        xdlc.convert(module, (X,))


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def net(torch):
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)
            self.drop = torch.nn.Dropout()

        def forward(self, x, scale=2.0):
            y = self.drop(self.conv(x)).relu_()
            return {"features": y * scale, "rows": -y.flatten(2)}

    torch.manual_seed(0)
    return Net().eval()


def check(torch, net, model, **more):
    wanted = net(torch.from_numpy(X), **more)
    got = xdlc.run(model, {"x": X, **{name: value.numpy() for name, value in more.items()}})
    for output, (_, value) in zip(model.main.outputs, wanted.items(), strict=True):
        np.testing.assert_allclose(got[output.name], value.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.frameworks
def test_a_module_is_traced(torch, net):
    x = torch.from_numpy(X)
    model = xdlc.convert(net, (x,))
    assert [each.name for each in model.main.outputs] == ["features", "rows"]
    assert "conv.weight" in model.main.tensors
    check(torch, net, model)
    check(torch, net, xdlc.convert(net, x))
    check(torch, net, xdlc.convert(torch.export.export(net, (x,))))
    named = {"x": x, "scale": torch.tensor(3.0)}
    check(torch, net, xdlc.convert(net, example_inputs=named), scale=torch.tensor(3.0))
    shapes = {"x": {2: torch.export.Dim("height", min=4, max=64)}, "scale": None}
    small = xdlc.convert(net, (x, 2.0), input_dims={"x": (1, 3, 6, 8)}, dynamic_shapes=shapes)
    assert small.main.outputs[0].shape == (1, 4, 4, 6)
    assert not net.training
    assert xdlc.check(net, (x,)).exit_code == 0


@pytest.mark.frameworks
def test_both_ways_agree(torch, net, tmp_path):
    x, notices = torch.from_numpy(X), []
    way = {"torch_exporter": "onnx"}
    check(torch, net, xdlc.convert(net, (x,), importer_options=way, notify=notices.append))
    assert "torch.onnx" in notices[0]
    torch.export.save(torch.export.export(net, (x,)), tmp_path / "net.pt2")
    check(torch, net, xdlc.convert(tmp_path / "net.pt2", importer_options=way | {"trust": True}))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.frameworks
def test_layers_of_quantized_networks_need_a_script(torch):
    net = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).eval()
    quantized = torch.ao.quantization.quantize_dynamic(net, {torch.nn.Linear})
    x = torch.linspace(-1, 1, 16).reshape(2, 8)
    with pytest.raises(UnsupportedOp, match="packed"):
        xdlc.convert(quantized, (x,))
    model = xdlc.convert(torch.jit.trace(quantized, x), (x,))
    got = xdlc.run(model, {model.main.inputs[0].name: x.numpy()})
    np.testing.assert_allclose(got[model.main.outputs[0].name], quantized(x).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.frameworks
def test_branches_of_a_script_that_only_change_a_tensor(torch, tmp_path, sign):
    code = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        y, total = x.clone(), torch.zeros_like(x)
        if bool(x.sum() > 0):
            y[0] = 5.0
        else:
            y.neg_()
            total.add_(y)
        return y, total
"""
    (tmp_path / "net_of_test.py").write_text(code)
    spec = importlib.util.spec_from_file_location("net_of_test", tmp_path / "net_of_test.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    script = torch.jit.script(module.Net().eval())
    x = sign * torch.tensor([[0.5, 1.0], [2.0, 0.25]])
    model = xdlc.convert(script, (x,))
    got = xdlc.run(model, {model.main.inputs[0].name: x.numpy()})
    for output, wanted in zip(model.main.outputs, script(x), strict=True):
        np.testing.assert_allclose(got[output.name], wanted.numpy())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # torch's own log of a trace
@pytest.mark.frameworks
def test_modules_that_are_refused(torch, net):
    class Branches(torch.nn.Module):
        def forward(self, x):
            y = x * 2 if x.sum() > 0 else x
            return y + 1 if y.max().item() > 3 else y

    x = torch.from_numpy(X)
    with pytest.raises(xdlc.XdlcError, match=r"x\.sum"):
        xdlc.convert(Branches().eval(), (x,))
    gc.collect()
    with pytest.raises(UsageError):
        xdlc.convert(net)
    for inputs in ((), (x, x, x), {"y": x}):
        with pytest.raises(UsageError, match="forward"):
            xdlc.convert(net, example_inputs=inputs)
    net.drop.train()
    with pytest.raises(UsageError, match="drop"):
        xdlc.convert(net, (x,))
    assert net.drop.training


def fix_of(call, kind):
    with pytest.raises(kind) as caught:
        call()
    return caught.value, str(caught.value.fix)


@pytest.mark.frameworks
@pytest.mark.parametrize("shape", [(3, 8, 4), (1, 4, 8, 8), (1, 3, 9, 8), (8,)])
def test_an_example_with_which_the_module_fails_is_the_cause(torch, shape):
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 5)).eval()
    error, fix = fix_of(lambda: xdlc.convert(net, (torch.zeros(shape),)), UsageError)
    assert str(list(shape)) in error.problem
    assert "rewrite" not in str(error)
    assert "module(*example_inputs) works" in fix
    examples = (torch.from_numpy(X),)
    net(*examples)
    (got,) = xdlc.run(xdlc.convert(net, examples), {"input": X}).values()
    np.testing.assert_allclose(got, net(*examples).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.frameworks
def test_a_list_is_one_argument(torch):
    class Sum(torch.nn.Module):
        def forward(self, xs):
            return xs[0] + 2 * xs[1]

    tensors = [torch.from_numpy(X), torch.from_numpy(X[::-1] + 1)]
    for examples in ({"xs": tensors}, {"xs": tuple(tensors)}, tensors, (tensors,)):
        model = xdlc.convert(Sum().eval(), examples)
        feeds = {tensor.name: value.numpy() for tensor, value in zip(model.main.inputs, tensors, strict=True)}
        (got,) = xdlc.run(model, feeds).values()
        np.testing.assert_allclose(got, tensors[0] + 2 * tensors[1], rtol=1e-6)


@pytest.mark.frameworks
def test_a_list_in_place_of_a_tuple_is_named(torch, net):
    examples = [torch.from_numpy(X)]
    _, fix = fix_of(lambda: xdlc.convert(net, examples), UsageError)
    assert "pass a tuple" in fix
    check(torch, net, xdlc.convert(net, tuple(examples)))


@pytest.mark.frameworks
def test_arrays_of_numpy_and_weights_without_values_are_named(torch, net):
    _, fix = fix_of(lambda: xdlc.convert(net, (X,)), UsageError)
    array = X
    check(torch, net, xdlc.convert(net, (eval(fix.split()[1], {"torch": torch, "array": array}),)))
    weights = net.state_dict()
    module = type(net)().to("meta").eval()
    error, fix = fix_of(lambda: xdlc.convert(module, (torch.from_numpy(X),)), UsageError)
    assert "'conv.weight'" in error.problem
    for code in fix.partition(": ")[2].split(", "):
        eval(code, {"module": module, "weights": weights})
    check(torch, net, xdlc.convert(module, (torch.from_numpy(X),)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.frameworks
def test_the_line_that_depends_on_values_is_named_and_both_fixes_work(torch):
    class Branch(torch.nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                x = x + 1
            return x

    class Where(torch.nn.Module):
        def forward(self, x):
            return torch.where(x.sum() > 0, x + 1, x)

    class Rounded(torch.nn.Module):
        def forward(self, x):
            return x + round(x.max().item())

    x = torch.linspace(0.25, 3, 8).reshape(2, 4)
    for net, code in ((Branch().eval(), "if x.sum() > 0:"), (Rounded().eval(), "round(x.max().item())")):
        error, fix = fix_of(lambda net=net: xdlc.convert(net, (x,)), UnsupportedOp)
        assert code in error.problem
        number = next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if code in line)
        assert f"{__file__}:{number}" in error.where
        assert "onnx" not in fix
        script = eval(fix.partition("convert ")[2].partition(", ")[0], {"torch": torch, "module": net})
        mended = [xdlc.convert(script, (x,))]
        if isinstance(net, Branch):
            assert "torch.where" in fix
            mended.append(xdlc.convert(Where().eval(), (x,)))
        for model in mended:
            for given in (x, -x):
                (got,) = xdlc.run(model, {model.main.inputs[0].name: given.numpy()}).values()
                np.testing.assert_allclose(got, net(given).numpy(), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.frameworks
def test_a_function_of_math_on_a_value_is_named_with_that_of_torch(torch):
    class Root(torch.nn.Module):
        def __init__(self, tensors) -> None:
            super().__init__()
            self.register_buffer("scale", torch.tensor(2.0))
            self.tensors = tensors

        def forward(self, x):
            return x * (torch.sqrt(self.scale) if self.tensors else math.sqrt(self.scale.item()))

    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    error, fix = fix_of(lambda: xdlc.convert(Root(False).eval(), (x,)), UnsupportedOp)
    assert "math.sqrt" in error.problem
    assert fix == "compute it with torch.sqrt"
    model = xdlc.convert(Root(True).eval(), (x,))
    (got,) = xdlc.run(model, {"x": x.numpy()}).values()
    np.testing.assert_allclose(got, (x * 2**0.5).numpy(), rtol=1e-6)
