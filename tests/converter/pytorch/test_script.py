"""TorchScript archives: control flow, numbers, modules, state, names, damage."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.converter.pytorch.pickles import Call, Global, Made, tensor
from tests.converter.pytorch.scripts import module, net, outputs, script
from xdlc.errors import ModelError, UnsupportedOp, UsageError, XdlcError

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("return torch.relu(x)", np.maximum(X, 0)),
        ("return torch.add(x, 1)", X + 1),
        ("return torch.add(x, x, alpha=2)", 3 * X),
        ("return torch.mul(x, torch.size(x, 1))", 3 * X),
        ("y = torch.clone(x)\n_0 = torch.relu_(y)\nreturn torch.add(_0, y)", 2 * np.maximum(X, 0)),
        ("z = torch.clone(x)\ny = torch.select(z, 0, 0)\n_0 = torch.mul_(y, 2.)\nreturn z", X * [[2], [1]]),
        ("y = x\nfor i in range(3):\n  y = torch.add(y, i)\nreturn y", X + 3),
        ("a = [x]\nb = a\n_0 = torch.add_(b, [x])\nreturn torch.stack(a)", np.stack([X, X])),
        ("i = 0\ny = x\nwhile torch.lt(i, 4):\n  i, y = torch.add(i, 1), torch.neg(y)\nreturn y", X),
        ("if torch.eq((torch.size(x))[0], 2):\n  y = x\nelse:\n  y = torch.neg(x)\nreturn y", X),
        (
            "y = torch.select(torch.to(x, 4), 0, 0)\nz = torch.select(x, 0, 1)\n"
            "a, b, = torch.meshgrid([y, z])\nreturn b",
            np.broadcast_to(X[1], (3, 3)),
        ),
        ("a, b, = torch.chunk(x, 2, 1)\nreturn torch.cat([b, a], 1)", np.roll(X, 1, 1)),
        ("a, b = torch.max(x, 1)\nreturn torch.add(a, b)", X.max(1) + 2),
        ("y = [x]\n_0 = torch.append(y, x)\nreturn torch.stack(y)", np.stack([X, X])),
        ("n = ops.prim.NumToTensor(torch.size(x, 1))\nreturn torch.view(x, [int(n), -1])", X.reshape(3, 2)),
        ("n = annotate(number, ops.prim.NumToTensor(torch.dim(x)))\nreturn torch.arange(n)", np.arange(2)),
        ("return torch.to(x, 4)", X.astype(np.int64)),
        ("return torch.to(x, torch.device(\"cpu\"), 11)", X != 0),
        ("y = torch.mean(torch.to(x, 6), [1], True)\nreturn torch.sub(x, y)", X - X.mean(1, keepdims=True)),
        ("y = unchecked_cast(Tensor, x)\nif torch.__isnot__(y, None):\n  z = y\nelse:\n  z = x\nreturn z", X),
        ("return torch.mul(x, torch.tensor([1., 2., 3.]))", X * [1, 2, 3]),
    ],
)  # fmt: skip
def test_code(tmp_path: Any, body: str, wanted: Any) -> None:
    path = script(tmp_path, net(body))
    (got,) = outputs(path, {"x": X})
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (
            "if bool(torch.gt(torch.sum(x), 0.)):\n  y = x\nelse:\n  y = torch.neg(x)\nreturn y",
            lambda x: np.sign(x.sum()) * x,
        ),
        ("n = int(torch.sum(x))\nreturn torch.mul(x, torch.add(n, 1))", lambda x: x * (int(x.sum()) + 1)),
        (
            "c = torch.sum(x)\nn = torch.item(c)\n_0 = torch.add_(c, 9)\nreturn torch.mul(x, n)",
            lambda x: x * x.sum(),
        ),
        (
            "c = torch.zeros([1])\nif bool(torch.gt(torch.sum(x), 0.)):\n  _0 = torch.add_(c, 1)\n"
            "else:\n  pass\nreturn torch.mul(x, int(c))",
            lambda x: x * (x.sum() > 0),
        ),
        (
            "if bool(torch.gt(torch.sum(x), 0.)):\n  n = 2\nelse:\n  n = 3\nreturn torch.mul(x, n)",
            lambda x: x * (2 if x.sum() > 0 else 3),
        ),
    ],
    ids=["branch", "number", "number of a tensor that changes", "change in a branch", "branch of numbers"],
)  # fmt: skip
@pytest.mark.parametrize("shift", [1.0, -1.0])
def test_what_depends_on_data_is_decided_when_the_graph_runs(
    tmp_path: Any, body: str, wanted: Any, shift: float
) -> None:
    (got,) = outputs(script(tmp_path, net(body)), {"x": X + np.float32(shift)})
    np.testing.assert_allclose(got, wanted(X + np.float32(shift)), rtol=1e-6)


def test_modules_and_functions_keep_names(tmp_path: Any) -> None:
    code = {
        "__torch__.py": """
            class Net(Module):
              fc : __torch__.layers.Linear
              def forward(self: __torch__.Net,
                x: Tensor) -> Tensor:
                fc = self.fc
                return (fc).forward(x, )
            """,
        "__torch__/layers.py": """
            def double(x: Tensor,
                by: float=2.) -> Tensor:
              return torch.mul(x, by)
            class Linear(Module):
              scale : Final[float] = 3.
              def forward(self: __torch__.layers.Linear,
                x: Tensor) -> Tensor:
                _0 = __torch__.layers.double
                weight = self.weight
                scale = self.scale
                return torch.mul(_0(torch.linear(x, weight, None), ), scale)
            """,
    }
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    path = script(tmp_path, code, module("Net", fc=module("layers.Linear", weight=weight)))
    model = xdlc.convert(path, {"x": [2, 3]})
    assert "fc.weight" in {each.name for each in model.main.tensors.values() if each.is_static}
    np.testing.assert_allclose(xdlc.run(model, {"x": X})["output_0"], 6 * X @ weight.T, rtol=1e-6)


def test_shapes_of_a_trace_are_those_of_the_inputs(tmp_path: Any) -> None:
    path = script(tmp_path, net("return torch.neg(x)"), traced=[X])
    assert xdlc.convert(path).main.inputs[0].shape == (2, 3)
    assert xdlc.convert(path, batch=5).main.inputs[0].shape == (5, 3)


def test_an_input_that_is_an_index_is_an_integer(tmp_path: Any) -> None:
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    path = script(tmp_path, net("return torch.embedding(CONSTANTS.c0, x)"), constants=[table])
    (got,) = outputs(path, {"x": np.int64([3, 0])})
    np.testing.assert_array_equal(got, table[[3, 0]])


@pytest.mark.parametrize(
    ("inputs", "options", "wanted"),
    [
        ("x: Tensor,\n    n: int=2", {}, 2 * X),
        ("x: Tensor,\n    n: int", {"set_inputs": {"n": 3}}, 3 * X),
        ("x: Tensor,\n    n: int", {"set_inputs": {"n": "3"}}, 3 * X),
        ("x: Tensor,\n    n: int", {}, 4 * X),
    ],
)
def test_a_number_among_the_inputs(tmp_path: Any, inputs: str, options: Any, wanted: Any) -> None:
    given = {"x": X} | ({"n": np.int64(4)} if "=" not in inputs and not options else {})
    (got,) = outputs(script(tmp_path, net("return torch.mul(x, n)", inputs)), given, **options)
    np.testing.assert_allclose(got, wanted)


_COUNTER = """
    class Net(Module):
      past : Tensor
      def forward(self: __torch__.Net,
        x: Tensor) -> Tensor:
        past = self.past
        self.past = torch.add(past, x)
        past0 = self.past
        return torch.mul(past0, 2)
    """


_LAZY = """
    class Net(Module):
      past : Tensor
      def forward(self: __torch__.Net,
        x: Tensor) -> Tensor:
        past0 = self.past
        if bool(torch.len(past0)):
          pass
        else:
          self.past = torch.zeros([2, 3])
        past = self.past
        self.past = torch.add(past, x)
        past1 = self.past
        return torch.mul(past1, 2)
    """
_COUNTING = """
    class Net(Module):
      past : int
      def forward(self: __torch__.Net,
        x: Tensor) -> Tensor:
        past = self.past
        self.past = torch.add(past, 1)
        return torch.mul(torch.add(torch.mul(x, 0), past), 2)
    """


@pytest.mark.parametrize(
    ("code", "start", "first", "change"),
    [
        (_COUNTER, np.ones((2, 3), np.float32), 1, X),
        (_COUNTER.replace("self.past =", "_0 = torch.copy_(past,").replace("x)\n", "x))\n", 1),
         np.ones((2, 3), np.float32), 1, X),
        (_LAZY, np.zeros(0, np.float32), 0, X),
        (_LAZY, None, 0, X),
    ],
    ids=["set", "changed", "empty", "none"],
)  # fmt: skip
def test_what_calls_change_is_state(tmp_path: Any, code: str, start: Any, first: float, change: Any) -> None:
    if start is None:
        code = code.replace("bool(torch.len(past0))", "torch.__isnot__(past0, None)")
    path = script(tmp_path, code, module("Net", past=start))
    model = xdlc.convert(path, {"x": [2, 3]})
    ((read, state),) = model.metadata["states"].items()
    (held,) = (each for each in model.main.inputs if each.name == read)
    past = np.broadcast_to(np.asarray(state["initial"], held.dtype.numpy), held.shape)
    for step in range(1, 4):
        found = xdlc.run(model, {"x": X, read: past})
        past = found[state["output"]]
        np.testing.assert_allclose(
            found["output_0"], np.broadcast_to(2 * (first + step * change), (2, 3)), rtol=1e-6
        )


@pytest.mark.parametrize(
    ("code", "start"), [(_LAZY.replace("zeros", "ones"), np.zeros(0, np.float32)), (_COUNTING, 4)]
)
def test_a_first_call_that_is_like_no_later_one_is_refused(tmp_path: Any, code: str, start: Any) -> None:
    path = script(tmp_path, code, module("Net", past=start))
    with pytest.raises(UnsupportedOp, match="'past'"):
        xdlc.convert(path, {"x": [2, 3]})


@pytest.mark.parametrize(
    ("body", "inputs", "error"),
    [
        ("return torch.relu(x", "x: Tensor", ModelError),
        ("return torch.nothing(x)", "x: Tensor", UnsupportedOp),
        ("return y", "x: Tensor", ModelError),
        ("return ops.custom.op(x)", "x: Tensor", UnsupportedOp),
        ("ops.prim.RaiseException(\"no\")\nreturn x", "x: Tensor", UnsupportedOp),
        ("return self.forward(x)", "x: Tensor", XdlcError),
        ("return self.missing", "x: Tensor", ModelError),
        ("y = x\nwhile True:\n  y = 1\nreturn y", "x: Tensor", UnsupportedOp),
        ("y = [1]\nwhile True:\n  y = torch.add(y, y)\nreturn y", "x: Tensor", ModelError),
        ("y = 2\nwhile True:\n  y = torch.mul(y, y)\nreturn y", "x: Tensor", ModelError),
        ("y = \"a\"\nfor i in range(99):\n  y = torch.add(y, y)\nreturn y", "x: Tensor", ModelError),
        ("y = []\nfor i in range(99):\n  y = [y, y]\nreturn torch.eq(y, [y])", "x: Tensor", XdlcError),
        ("return torch.zeros([99999999999, 99])", "x: Tensor", UnsupportedOp),
        ("return torch.reshape(x, [4, 4])", "x: Tensor", XdlcError),
        ("return " + "(" * 300 + "x" + ")" * 300, "x: Tensor", XdlcError),
        ("return x" + ".y" * 3000, "x: Tensor", XdlcError),
        ("return CONSTANTS.c7", "x: Tensor", ModelError),
        ("import os\nreturn x", "x: Tensor", UnsupportedOp),
        ("y = [x for x in [1]]\nreturn x", "x: Tensor", UnsupportedOp),
        ("return (lambda: x)()", "x: Tensor", XdlcError),
        ("return x.__class__", "x: Tensor", XdlcError),
        ("return open(\"/etc/passwd\")", "x: Tensor", UnsupportedOp),
        ("return x", "x: Dict[str, Tensor]", UnsupportedOp),
        ("return torch.nonzero(x)", "x: Tensor", UnsupportedOp),
        ("return torch.unsqueeze_(torch.neg(x), 0)", "x: Tensor", UnsupportedOp),
        ("while bool(torch.sum(x)):\n  x = torch.neg(x)\nreturn x", "x: Tensor", UnsupportedOp),
        ("for i in range(int(torch.sum(x))):\n  x = torch.neg(x)\nreturn x", "x: Tensor", UnsupportedOp),
        ("return torch.cat(x)", "x: List[Tensor]", UnsupportedOp),
        ("return \"text\"", "x: Tensor", UnsupportedOp),
    ],
)  # fmt: skip
def test_code_that_is_not_understood_is_refused(
    tmp_path: Any, body: str, inputs: str, error: type[XdlcError]
) -> None:
    path = script(tmp_path, net(body, inputs))
    start = time.process_time()
    with pytest.raises(error):
        xdlc.convert(path, {"x": [2, 3]} if inputs == "x: Tensor" else {})
    assert time.process_time() - start < 5


def test_an_input_without_a_shape_is_named(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="'x'"):
        xdlc.convert(script(tmp_path, net("return x")))
    with pytest.raises(UsageError, match="'x'"):
        xdlc.convert(script(tmp_path, net("return x")), {"x": [-1, 3]})


def test_weights_for_one_kind_of_processor_are_refused(tmp_path: Any) -> None:
    packed = Made("__torch__.torch.classes.xnnpack.LinearOpContext", (X, None))
    path = script(tmp_path, net("return x"), module("Net", packed=packed))
    with pytest.raises(UnsupportedOp, match="optimize_for_mobile"):
        xdlc.convert(path, {"x": [2, 3]})


def test_a_number_of_data_is_no_size(tmp_path: Any) -> None:
    with pytest.raises(UnsupportedOp, match="depends on data"):
        outputs(script(tmp_path, net("return torch.zeros([int(torch.sum(x))])")), {"x": X})


def test_packed_weights_are_quantized(tmp_path: Any) -> None:
    code = net(
        """
        xq = torch.quantize_per_tensor(x, 0.5, 3, 13)
        yq = ops.quantized.linear(xq, CONSTANTS.c0, 0.25, 10)
        return torch.dequantize(yq)
        """
    )
    weight = np.int8([[1, -2, 3], [4, 5, -6]])
    held = tensor("0", weight, (Global("torch.per_tensor_affine"), 0.125, 0))
    bias = np.float32([0.5, -1])
    packed = Made("__torch__.torch.classes.quantized.LinearPackedParamsBase", (held, bias))
    path = script(tmp_path, code.replace("c0", "c1"), constants=[weight, packed])
    (got,) = outputs(path, {"x": X})
    rounded = (np.clip(np.round(X / 0.5) + 3, 0, 255) - 3) * 0.5
    wanted = rounded @ (weight * 0.125).T + bias
    wanted = (np.clip(np.round(wanted / 0.25) + 10, 0, 255) - 10) * 0.25
    np.testing.assert_allclose(got, wanted, atol=1e-6)


def test_members_of_an_enumeration_are_their_values(tmp_path: Any) -> None:
    code = {
        "__torch__.py": """
            class Kind(Enum):
              LAST : Final[str] = "last"
            class Net(Module):
              def forward(self: __torch__.Net,
                x: Tensor) -> Tensor:
                which = self.which
                if torch.eq(which, __torch__.Kind.LAST):
                  y = torch.neg(x)
                else:
                  y = x
                return y
            """
    }
    path = script(tmp_path, code, module("Net", which=Call("__torch__.Kind", ("last",))))
    np.testing.assert_array_equal(outputs(path, {"x": X})[0], -X)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("torch.sigmoid(q)", lambda x: np.round(256 / (1 + np.exp(-x))) / 256),
        (
            "torch.cat([q, torch.quantize_per_tensor(x, 0.125, 0, 13)])",
            lambda x: np.concatenate([x, np.maximum(x, 0)]),
        ),
        ("torch.relu(q)", lambda x: np.maximum(x, 0)),
    ],
)  # fmt: skip
def test_operators_of_quantized_tensors(tmp_path: Any, body: str, wanted: Any) -> None:
    x = np.float32([[-2, -1.5, 1], [0.5, 1, 2]])
    path = script(
        tmp_path, net(f"q = torch.quantize_per_tensor(x, 0.5, 10, 13)\nreturn torch.dequantize({body})")
    )
    np.testing.assert_allclose(outputs(path, {"x": x})[0], wanted(x), atol=1e-6)


def test_inputs_in_a_tuple(tmp_path: Any) -> None:
    code = net("a, b, = x\nreturn torch.sub(a, b)", "x: Tuple[Tensor, Tensor]")
    (got,) = outputs(script(tmp_path, code), {"x_0": X, "x_1": X[::-1].copy()})
    np.testing.assert_array_equal(got, X - X[::-1])
    with pytest.raises(XdlcError, match="x_0"):
        xdlc.convert(tmp_path / "net.pt")


def test_results_in_nested_containers_have_names(tmp_path: Any) -> None:
    body = 'return {"a": torch.neg(x), "b": [x, torch.abs(x)]}'
    model = xdlc.convert(script(tmp_path, net(body)), {"x": [2, 3]})
    assert [each.name for each in model.main.outputs] == ["a", "b_0", "b_1"]
