"""A document on plugins for custom operators of Caffe: its examples, run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import xdlc
from tests.support.compilers import needs_cc
from tests.udo.plugin.plugins import EXAMPLES, op_of, written
from tests.udo.plugin.test_attributes import onnx_model, seen
from tests.udo.plugin.test_caffe import net
from xdlc import api
from xdlc.cli.tools import udo_config
from xdlc.errors import UsageError, XdlcError
from xdlc.udo.plugin.collection import plugin_op
from xdlc.udo.plugin.discovery import named_plugins

REDUCTION = """
from pathlib import Path

class Reduction(Plugin):
    framework, op_type, package = "CAFFE", "Test", "Mylenet"
    name = "test_layer"                             # REGISTER_CUSTOM_OP("test_layer").OriginOpType("Test")
    imply_type = "ImplyType::TVM"
    inputs, outputs = ("data",), ("result",)
    formats = (["DOMI_TENSOR_ND"], ["DOMI_TENSOR_ND"])
    params = {
        "axis": Int(default=0), "coeff": Float(default=1.0),
        "operation": Enum("SUM", "ASUM", "SUMSQ", "MEAN", default="SUM"),
        "min_size": Floats(default=None), "offset": Ints(default=None, dtype="uint32"),
    }

    def parse_params(self, node):
        param = node.attributes["reduction_param"]  # layer->reduction_param()
        operation_map = enum_map({1: "SUM", 2: "ASUM", 3: "SUMSQ", 4: "MEAN"})
        found = {name: param[name] for name in ("axis", "coeff", "min_size", "offset") if name in param}
        operation = param.get("operation", 1)
        return {**found, "operation": operation if isinstance(operation, str) else operation_map(operation)}

    def infer_shape_and_type(self, op):
        data = op.inputs[0]
        axis = axis_of(op.params["axis"], len(data.shape))
        return with_shape(data, (*data.shape[:axis], *[1] * (len(data.shape) - axis)))

    def build_kernel(self, op):
        shape, axis = op.inputs[0].shape, op.params["axis"]
        if len(shape) != 4:
            raise ValueError(f"The shape size is {len(shape)}, which is not 4!")
        return compile_c(
            op, Path(__file__).with_name("reduction.c"), entry="reduction", name="Reduction",
            arguments="(i,i,i,i), s, i, s, f, s",
            values=(tuple(shape), "float16", axis_of(axis, 4), op.params["operation"], op.params["coeff"],
                    "Reduction"),
        )
"""
C = """#include <string.h>
#include "xdlc_udo.h"
xdlc_udo_status reduction(uint32_t num_inputs, const xdlc_udo_tensor *inputs, uint32_t num_outputs,
                          const xdlc_udo_tensor *outputs, uint32_t num_arguments,
                          const xdlc_udo_argument *arguments) {
  if (num_inputs != 1 || num_outputs != 1 || num_arguments != 9) return XDLC_UDO_ERROR_INVALID_ARGUMENT;
  size_t rows = 1, size = 1;
  for (int i = 0; i < 4; i++) *(i < arguments[5].integer ? &rows : &size) *= (size_t)arguments[i].integer;
  const float *x = inputs[0].data;
  float *y = outputs[0].data;
  for (size_t row = 0; row < rows; row++) {
    double sum = 0;
    for (size_t i = 0; i < size; i++) {
      double value = x[row * size + i];
      if (!strcmp(arguments[6].string, "SUMSQ")) value *= value;
      sum += strcmp(arguments[6].string, "ASUM") || value > 0 ? value : -value;
    }
    y[row] = (float)(arguments[7].real * (strcmp(arguments[6].string, "MEAN") ? sum : sum / (double)size));
  }
  return XDLC_UDO_OK;
}
"""


def layer(params: str, type: str = "Test", name: str = "r") -> str:
    return f'layer {{ name: "{name}" type: "{type}" bottom: "x" top: "{name}" {params} }}\n'


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    (tmp_path / "reduction.c").write_text(C)
    return written(tmp_path, REDUCTION, "reduction.py")


@needs_cc
def test_reduction_is_parsed_inferred_built_registered_and_run(tmp_path: Path, plugin: Path) -> None:
    layers = layer("reduction_param { operation: 4 axis: 1 coeff: 2 }") + layer(
        "reduction_param { operation: ASUM axis: -1 min_size: 1.5 min_size: 2 offset: 7 }", name="s"
    )
    model = xdlc.convert(net(tmp_path, layers, 2, 3, 4, 5), plugin=[str(plugin)])
    first, second = model.main.ops
    assert (first.package, first.type, first.outputs[0].shape) == ("Mylenet", "test_layer", (2, 1, 1, 1))
    assert (first.param("operation"), second.param("operation")) == (3, 1)
    assert (second.param("min_size").tolist(), second.param("offset").tolist()) == ([1.5, 2], [7])
    x = np.random.default_rng(1).standard_normal((2, 3, 4, 5)).astype(np.float32)
    xdlc.save(model, tmp_path / "net.dlc")
    folder = tmp_path / "kernel_meta"
    found = xdlc.run(tmp_path / "net.dlc", {"x": x}, udo_package_path=folder)
    np.testing.assert_allclose(found["r"].reshape(-1), 2 * x.mean((1, 2, 3)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["s"][..., 0], np.abs(x).sum(-1), rtol=1e-5)
    described, library = folder / "Reduction.json", folder / "Reduction.so"
    stated = json.loads(described.read_text())
    first, second = stated["calls"]
    assert (library.read_bytes()[:4], first["arguments"]) == (b"\x7fELF", "iiiisisfs")
    assert first["values"][:6] == [2, 3, 4, 5, "float16", 1]
    assert (first["ops"], second["ops"]) == (["r"], ["s"])


@needs_cc
def test_a_node_that_the_kernel_does_not_take_is_refused_at_conversion(tmp_path: Path, plugin: Path) -> None:
    with pytest.raises(UsageError, match="The shape size is 2, which is not 4!"):
        xdlc.convert(net(tmp_path, layer("reduction_param { axis: 1 }"), 2, 3), plugin=[str(plugin)])


def test_kinds_of_attributes(tmp_path: Path) -> None:
    attributes = seen(onnx_model(tmp_path), "onnx")
    kinds = {
        "INT": "i", "FLOAT": "f", "STR": "s", "BYTES": "octets", "TENSOR": "t", "TENSOR_DESC": "tp",
        "GRAPH": "g", "LIST_INT": "ints", "LIST_FLOAT": "floats", "LIST_STR": "strings",
        "LIST_BYTES": "strings", "LIST_TENSOR": "ts", "LIST_TENSOR_DESC": "tps", "LIST_GRAPH": "gs",
    }  # fmt: skip
    assert all(name in attributes for name in kinds.values())
    text = "p { on: true flags: true flags: false one { a: 1 } many { a: 1 } many { a: 2 } }"
    path = net(tmp_path, layer(text, "Mine"), 1, 3)
    (op,) = xdlc.convert(
        path,
        plugin=[
            str(
                written(
                    tmp_path,
                    "class Own(Plugin):\n"
                    "    framework, op_type, package, inputs, outputs = 'caffe', 'Mine', 'P', ['x'], ['y']\n"
                    "    params = {'on': Bool(), 'flags': Bools(), 'one': Json(), 'many': Json()}\n"
                    "    infer_shape_and_type = lambda self, op: op.inputs[0]\n",
                )
            )
        ],
    ).main.ops  # BOOL, LIST_BOOL, NAMED_ATTRS, LIST_NAMED_ATTRS
    assert (op.param("on"), op.param("flags").tolist()) == (True, [True, False])
    assert [json.loads(op.param(name)) for name in ("one", "many")] == [{"a": 1}, [{"a": 1}, {"a": 2}]]


def test_one_convolution_among_many_is_overridden_and_parsing_is_skipped(tmp_path: Path) -> None:
    assert "parse_params" not in vars(named_plugins(str(EXAMPLES / "fast_conv.py"))[0])
    shape = "node.inputs[0].shape == (1, 128, 28, 28)"
    accepts = f"node.attributes['num_output'] == 128 and {shape} and node.name != 'c'"
    text = (
        "class Conv(Plugin):\n"
        "    framework, op_type, package, name = 'caffe', 'Convolution', 'P', 'FastConv'\n"
        "    inputs, outputs = ['x'], ['y']\n"
        "    params = {'num_output': Int(), 'kernel_size': Int(), 'pad': Int()}\n"
        "    infer_shape_and_type = lambda self, op: op.inputs[0]\n"
        f"    accepts = lambda self, node: {accepts}\n"
    )
    layers = "".join(
        layer(f"convolution_param {{ num_output: {count} kernel_size: 3 pad: 1 }}", "Convolution", name)
        for name, count in (("a", 128), ("b", 64), ("c", 128))
    )
    path = net(tmp_path, layers, 1, 128, 28, 28)
    with pytest.raises(XdlcError) as caught:  # b and c are xdlc's own convolutions, which lack weights here
        xdlc.convert(path, plugin=[str(written(tmp_path, text))])
    assert "'a'" not in str(caught.value)
    assert all(f"'{name}'" in str(caught.value) for name in "bc")


def test_an_axis_counts_the_real_axes(tmp_path: Path, plugin: Path) -> None:
    text = layer("reduction_param { axis: -1 }")  # of 2 axes; padded to 4 it would be `axis -= 2`
    without = written(
        tmp_path, REDUCTION.replace('imply_type = "ImplyType::TVM"', "").split("    def build")[0]
    )
    (op,) = xdlc.convert(net(tmp_path, text, 2, 3), plugin=[str(without)]).main.ops
    assert op.outputs[0].shape == (2, 1)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("CAFFE", "CAFE"), "no framework 'cafe'"),
        (("ImplyType::TVM", "ImplyType::CCE"), "no imply_type"),
        (("DOMI_TENSOR_ND", "DOMI_TENSOR_NC"), "no format"),
        (('"Test", "Mylenet"', '"Test", "qti.aisw"'), "built-in operations"),
        (("def build_kernel", "def build"), "needs build_kernel"),
    ],
)
def test_registrations_that_are_none(tmp_path: Path, change: tuple[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        op_of(tmp_path, REDUCTION.replace(*change))


def test_formats_of_several_inputs_and_weights_of_a_quantized_convolution() -> None:
    (plugin,) = named_plugins(str(EXAMPLES / "fast_conv.py"))
    eight = ["DOMI_TENSOR_FRACTAL_Z", *["DOMI_TENSOR_NC1HWC0"] * 7]
    notices: list[str] = []
    own = type("Eight", (plugin,), {"weight_formats": eight, "__module__": plugin.__module__})
    declaration = plugin_op(own, notices.append).hooks.declaration  # type: ignore[union-attr]
    assert [form.name for form in declaration.input_formats] == ["NC1HWC0", "FRACTAL_Z", "NC1HWC0"]
    assert len(notices) == 1
    two = {
        "inputs": ["a", "b"],
        "outputs": ["y"],
        "formats": (["NC1HWC0"] * 2, ["NC1HWC0"]),
        "weight_formats": (),
    }
    own = type("Two", (plugin,), {**two, "op_type": "Own", "name": "Own", "__module__": plugin.__module__})
    assert len(plugin_op(own).hooks.declaration.input_formats) == 2  # type: ignore[union-attr]


@pytest.mark.frameworks
def test_a_plugin_is_checked_on_random_nodes(tmp_path: Path, plugin: Path) -> None:
    checked = ["check-plugin", str(EXAMPLES / "reduction.py"), "--nodes", "1", "--attribute", "axis", "1"]
    assert "kernels: compile_c, compute" in CliRunner().invoke(udo_config.main, checked).stdout
    report = api.check_plugin(str(EXAMPLES / "reduction.py"), 2, attributes={"axis": 1})
    assert (report.nodes, report.kernels, report.problems) == (2, ("compile_c", "compute"), {})
    wrong = plugin.read_text().replace(
        "    def build_kernel", "    def compute(self, i, p, o):\n        return i[0]\n\n    def build_kernel"
    )
    plugin.write_text(wrong.replace("def parse_params", "def unused"))
    report = api.check_plugin(
        str(plugin), 1, attributes={"axis": 3, "operation": "MEAN"}, shapes={"data": (1, 1, 1, 3)}
    )
    assert any("[1, 1, 1, 1]" in text for text in report.problems)
    with pytest.raises(XdlcError):
        list(report.lines())


@pytest.mark.parametrize("pads", ["1,1,1,1", "[1, 1, 1, 1]"])
def test_attributes_that_are_lists_are_given_as_texts(tmp_path: Path, pads: str) -> None:
    (tmp_path / "p.py").write_text(
        "from xdlc.udo import Plugin\nfrom xdlc.udo.plugin import Ints, same_as\n"
        'class Pads(Plugin):\n    op_type, package, inputs, outputs = "Pads", "P", ("x",), ("y",)\n'
        '    params = {"pads": Ints()}\n'
        "    def infer_shape_and_type(self, op): return same_as(op.inputs[0])\n"
        '    def accepts(self, node): return list(node.attributes["pads"]) == [1, 1, 1, 1]\n'
        "    def compute(self, inputs, params, outputs): return inputs[0]\n"
    )
    assert api.check_plugin(str(tmp_path / "p.py"), 1, attributes={"pads": pads}).nodes == 1


@pytest.mark.parametrize("shapes", [{"data": (-1, 2)}, {"data": (1 << 20, 1 << 20)}, {"x": (1,)}])
def test_shapes_that_no_random_node_has_are_refused(shapes: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(UsageError):
        api.check_plugin(str(EXAMPLES / "reduction.py"), shapes=shapes)
