"""A document on plugins for custom operators of Caffe: its examples, run."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.udo.plugin.plugins import EXAMPLES, op_of, written
from xdlc import api
from xdlc.cli.tools import udo_config
from xdlc.errors import UsageError, XdlcError
from xdlc.udo import Plugin
from xdlc.udo.plugin.hooks import plugin_hooks

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
#include "CPU/QnnCpuOpPackage.h"
Qnn_ErrorHandle_t reduction(const QnnCpuOpPackage_Node_t *node) {
  if (node->numOfInputs != 1 || node->numOfOutputs != 1 || node->numOfParams != 9)
    return QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
  size_t rows = 1, size = 1;
  for (int i = 0; i < 4; i++)
    *(i < (int64_t)node->params[5]->scalarParam ? &rows : &size) *= (size_t)node->params[i]->scalarParam;
  const float *x = node->inputs[0]->data;
  float *y = node->outputs[0]->data;
  for (size_t row = 0; row < rows; row++) {
    double sum = 0;
    for (size_t i = 0; i < size; i++) {
      double value = x[row * size + i];
      if (!strcmp(node->params[6]->stringParam, "SUMSQ")) value *= value;
      sum += strcmp(node->params[6]->stringParam, "ASUM") || value > 0 ? value : -value;
    }
    if (!strcmp(node->params[6]->stringParam, "MEAN")) sum /= (double)size;
    y[row] = (float)(node->params[7]->scalarParam * sum);
  }
  return QNN_SUCCESS;
}
"""


def layer(params: str, type: str = "Test", name: str = "r") -> str:
    return f'layer {{ name: "{name}" type: "{type}" bottom: "x" top: "{name}" {params} }}\n'


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    (tmp_path / "reduction.c").write_text(C)
    return written(tmp_path, REDUCTION, "reduction.py")


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


FRACTAL = ["DOMI_TENSOR_FRACTAL_Z", *["DOMI_TENSOR_NC1HWC0"] * 7]


@pytest.mark.parametrize(
    "formats",
    [
        {"formats": (["DOMI_TENSOR_NC1HWC0", "DOMI_TENSOR_NC1HWC0"], ["DOMI_TENSOR_NC1HWC0"])},
        {"weight_formats": FRACTAL},
        {"weight_formats": {"b": "FRACTAL_Z"}},
    ],
)
def test_packed_formats_are_refused_with_the_example_that_packs(formats: dict[str, object]) -> None:
    declared = {"op_type": "Own", "package": "P", "inputs": ["a", "b"], "outputs": ["y"], **formats}
    with pytest.raises(UsageError) as caught:
        plugin_hooks(type("Own", (Plugin,), declared))
    assert "examples/plugins/fast_conv.py" in str(caught.value.fix)


def test_formats_without_packing_are_layouts() -> None:
    declared = {"op_type": "Own", "package": "P", "inputs": ["a", "b", "w"], "outputs": ["y"]}
    formats = (["DOMI_TENSOR_NHWC", "DOMI_TENSOR_ND"], ["DOMI_TENSOR_NCHW"])
    own = type("Own", (Plugin,), {**declared, "formats": formats, "weight_formats": {"w": "ND"}})
    definition = plugin_hooks(own).declaration.definition
    layouts = [tensor.layout for tensor in (*definition.inputs, *definition.outputs)]
    assert (layouts, definition.inputs[2].is_static) == (["NHWC", "", "", "NCHW"], True)


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
