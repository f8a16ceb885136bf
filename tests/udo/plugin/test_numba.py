"""Kernels that numba compiles: results of ``build_kernel``, places they run."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import xdlc
from tests.support.onnx_models import build, floats, node
from tests.udo.plugin.plugins import EXAMPLES, written
from tests.udo.plugin.test_caffe import REDUCTIONS, net, types
from xdlc.errors import UsageError, XdlcError

SCALE = """
class Scale(Plugin):
    op_type, package, inputs, outputs = "Scale", "Math", ("x",), ("y",)
    params = {"by": Float(default=3.0)}
    infer_shape_and_type = lambda self, op: op.inputs[0]
    def build_kernel(self, op):
        import numba
        by = op.params["by"]
"""
FORMS = {
    "writes": "@numba.njit\n        def f(x, y):\n            y[...] = x * by",
    "returns": "f = numba.njit(lambda x: (x * np.float32(by)).astype(np.float32))",
    "stated types": 'f = numba.njit("void(float32[:, :], float32[:, :])")(lambda x, y: fill(x, y))',
    "elementwise": 'f = numba.vectorize(["float32(float32)"])(lambda x: x * by)',
}
HEAD = "import numpy as np\nimport numba as nb\n@nb.njit\ndef fill(x, y):\n    y[...] = x * 3\n"


def model(folder: Path) -> Path:
    made = build([node("Scale", domain="mine")], {"x": floats(2, 3)}, None, ["y"], 17)
    (folder / "m.onnx").write_bytes(made.SerializeToString())
    return folder / "m.onnx"


@pytest.mark.frameworks
@pytest.mark.parametrize("form", list(FORMS))
def test_a_function_of_numba_runs_in_the_process_of_kernels(tmp_path: Path, form: str) -> None:
    file = written(tmp_path, HEAD + SCALE + f"        {FORMS[form]}\n        return f\n")
    notices: list[str] = []
    made = xdlc.convert(model(tmp_path), plugin=[str(file)], notify=notices.append)
    assert any("udo_package_path" in text for text in notices)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(xdlc.run(made, {"x": x}, udo_package_path=file)["y"], 3 * x)


@pytest.mark.frameworks
@pytest.mark.parametrize("body", ["return kernels.made(3.0)", "return self.made()"])
def test_numba_may_be_in_another_module_or_method(tmp_path: Path, body: str) -> None:
    (tmp_path / "kernels.py").write_text(
        "import numba\n\ndef made(by):\n    return numba.njit(lambda x, y: fill(x, y, by))\n\n\n"
        "@numba.njit\ndef fill(x, y, by):\n    y[...] = x * by\n"
    )
    text = SCALE.replace("        import numba\n", "") + f"        {body}\n\n    def made(self):\n"
    file = written(tmp_path, f"import kernels\n{text}        return kernels.made(3.0)\n")
    made = xdlc.convert(model(tmp_path), plugin=[str(file)])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(xdlc.run(made, {"x": x}, udo_package_path=file)["y"], 3 * x)


@pytest.mark.frameworks
def test_kernels_have_the_weights_of_their_ops(tmp_path: Path) -> None:
    text = SCALE.replace('("x",)', '("x", Input("w", static=True))').replace('"by": Float(default=3.0)', "")
    text = text.replace('op.params["by"]', "op.inputs[1].data.numpy()[0]")
    file = written(tmp_path, f"{text}        return numba.njit(lambda x, w: x * by)\n")
    nodes = [node("Scale", "x v", "y", domain="mine"), node("Scale", "x w", "z", domain="mine")]
    weights = {"v": np.float32([2]), "w": np.float32([5])}
    made = build(nodes, {"x": floats(2, 3)}, weights, ["y", "z"], 17)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    x = np.ones((2, 3), np.float32)
    found = xdlc.run(xdlc.convert(tmp_path / "m.onnx", plugin=[str(file)]), {"x": x}, udo_package_path=file)
    np.testing.assert_array_equal([found["y"], found["z"]], [2 * x, 5 * x])


@pytest.mark.frameworks
def test_the_example_in_numba_equals_the_reduction_of_xdlc(tmp_path: Path) -> None:
    layers = "".join(
        f'layer {{ name: "r{place}" type: "Reduction" bottom: "x" top: "y{place}" '
        f"reduction_param {{ {params} }} }}\n"
        for place, params in enumerate(REDUCTIONS)
    )
    path, file = net(tmp_path, layers, 2, 3, 4, 5), EXAMPLES / "reduction_numba.py"
    made = xdlc.convert(path, plugin=[str(file)])
    assert types(made) == [("CaffeOps", "NumbaReduction")] * len(REDUCTIONS)
    x = np.random.default_rng(3).standard_normal((2, 3, 4, 5)).astype(np.float32)
    found, wanted = xdlc.run(made, {"x": x}, udo_package_path=file), xdlc.run(xdlc.convert(path), {"x": x})
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name].reshape(array.shape), array, rtol=1e-5, atol=1e-5)


@pytest.mark.frameworks
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("return numba.njit(lambda x, y, z: None)", "has 3 parameters"),
        ("return numba.njit(lambda x, y: x.nothing())", "numba rejects"),
        ("return lambda x: x", "returned function"),
    ],
)
def test_what_numba_cannot_compile_is_refused_at_conversion(tmp_path: Path, body: str, problem: str) -> None:
    file = written(tmp_path, SCALE + f"        {body}\n")
    with pytest.raises(XdlcError, match=problem):
        xdlc.convert(model(tmp_path), plugin=[str(file)])


def test_without_numba_the_error_states_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    file = written(tmp_path, "import numba\n" + SCALE + "        return numba.njit(lambda x: x)\n")
    with pytest.raises(UsageError) as caught:
        xdlc.convert(model(tmp_path), plugin=[str(file)])
    assert "xdlc[numba]" in (caught.value.fix or "")
