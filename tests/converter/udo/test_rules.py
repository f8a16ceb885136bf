"""A definition's texts give shapes that a model leaves open; constraints hold."""

import re

import onnx
import pytest
from onnx import TensorProto, helper

from xdlc import api
from xdlc.errors import XdlcError, each_problem
from xdlc.opdefs.xml_reader import read_valid
from xdlc.udo.config.json_writer import write_json

CONFIG = """<OpDefCollection PackageName="Grow" Domain="my" Version="1.0"><OpDefList><OpDef><Name>Grow</Name>
<Input><Name>x</Name><Mandatory>true</Mandatory><Datatype>FLOAT_32</Datatype>
  <Shape><Rank>4D</Rank><Layout>NHWC</Layout><Text>[N, H, W, C]</Text></Shape></Input>
<Input><Name>scale</Name><Mandatory>false</Mandatory><Datatype>FLOAT_32</Datatype><Shape><Rank>1D</Rank></Shape></Input>
<Input><Name>bias</Name><Mandatory>false</Mandatory><Datatype>FLOAT_32</Datatype>
  <Shape><Rank>1D</Rank><Text>[C]</Text></Shape><IsStaticTensor>true</IsStaticTensor></Input>
<Output><Name>y</Name><Mandatory>true</Mandatory><Datatype>FLOAT_32</Datatype>
  <Shape><Rank>4D</Rank><Layout>NHWC</Layout><Text>[N, H * factor, W * factor, C]</Text></Shape></Output>
<Parameter><Name>factor</Name><Mandatory>false</Mandatory>
  <Constraint id="0" Type="Value">1 &lt;= value &lt;= 8</Constraint>
  <Constraint id="1" Type="Value">best if even</Constraint>
  <Datatype>UINT_32</Datatype><Shape><Rank>SCALAR</Rank></Shape><Default>2</Default></Parameter>
<SupportedBackend>CPU</SupportedBackend></OpDef></OpDefList></OpDefCollection>"""


def convert(folder, channels=4, config=None, **attributes):
    """Convert a model whose op lacks its second input and its output's shape."""
    node = helper.make_node("Grow", ["x", "", "bias"], ["y"], domain="my", name="grow0", **attributes)
    bias = helper.make_tensor("bias", TensorProto.FLOAT, [channels], [1.0] * channels)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 5, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y], [bias])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), folder / "m.onnx")
    if config is None:
        config = folder / "ops.xml"
        config.write_text(CONFIG)
    return api.convert(folder / "m.onnx", udo_config_paths=[config])


@pytest.mark.parametrize(("attributes", "dims"), [({"factor": 3}, (1, 15, 9, 4)), ({}, (1, 10, 6, 4))])
def test_the_shape_follows_from_its_text(attributes, dims, tmp_path):
    model = convert(tmp_path, **attributes)
    (op,) = [op for op in model.main.ops if op.package == "Grow"]
    assert op.outputs[0].shape == dims
    assert op.inputs[1] is None
    assert op.inputs[2].is_static


@pytest.mark.parametrize(
    ("channels", "attributes", "message"),
    [
        (4, {"factor": 9}, "parameter 'factor': expected 1 <= value <= 8, found value is 9"),
        (3, {}, "input 'bias': expected dimension 4 (C, as in 'x')"),
    ],
)
def test_what_breaks_the_definition_is_one_error(channels, attributes, message, tmp_path):
    with pytest.raises(XdlcError) as caught:
        convert(tmp_path, channels, **attributes)
    (problem,) = each_problem(caught.value)
    assert message in problem.problem
    assert f"{tmp_path / 'ops.xml'}:" in problem.problem
    assert "grow0" in str(problem)


SUPPLEMENT = """</OpDefList><SupplementalOpDefList Backend="CPU">
<SupportedOps><OpName>Grow</OpName></SupportedOps>
<SupplementalOpDef><Name>Grow</Name><Parameter><Name>factor</Name>
<Constraint id="0" Type="Value">value &lt; 4 and value &gt; 0</Constraint></Parameter></SupplementalOpDef>
</SupplementalOpDefList>"""


@pytest.mark.parametrize("form", ["xml", "json"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (CONFIG, "(constraint '0' in "),
        (CONFIG.replace("</OpDefList>", SUPPLEMENT), "(constraint '0' 'value < 4 and value > 0' in "),
    ],
)
def test_a_broken_constraint_is_reported_with_its_place(form, text, told, tmp_path):
    (tmp_path / "ops.xml").write_text(text)
    config = tmp_path / f"ops.{form}"
    if form == "json":
        config.write_text(write_json([read_valid(tmp_path / "ops.xml")], extended=True))
    with pytest.raises(XdlcError) as caught:
        convert(tmp_path, config=config, factor=9)
    (problem,) = each_problem(caught.value)
    _, _, place = problem.problem.partition(f"{told}{config}:")
    if form == "json":
        assert re.match(r" UdoPackage_0\.(Operators\[0\]\.scalar_params\[0\]|xdlc_supplements)", place)
        return
    lines = config.read_text().splitlines()
    near = "\n".join(lines[int(place[:-1]) - 1 :][:16])
    assert ("value < 4" if "value < 4" in told else "1 <= value") in near.replace("&lt;", "<")
