import numpy as np
import pytest

import xdlc
from xdlc.boundary import files
from xdlc.errors import ModelError, StorageError, UsageError, XdlcError, each_problem
from xdlc.json_fields import MAX_PROBLEMS
from xdlc.prepare.edit.edit import edit

CUSTOM = """
- IOName: x
  Layout: { Model: NCHW, Custom: NHWC }
  Datatype: uint8
  QuantParam: { Type: QNN_DEFINITION_DEFINED, Scale: 0.5, Offset: -128 }
- IOName: y
  Datatype: float16
"""
CONFIG = """
Input Tensor Configuration:
  - Name: x
    Src Model Parameters: { DataType: float32, Layout: NCHW }
    Desired Model Parameters:
      DataType:
      Layout: NHWC
      Shape: 1,3,16,16
      QuantParams: { Scale: , Offset: }
"""


@pytest.fixture
def path(models):
    return models.save(models.cnn())


def write(path, text, name="io.yaml"):
    made = path.parent / name
    made.write_bytes(text if isinstance(text, bytes) else text.encode())
    return made


def test_custom_io_sets_layout_type_and_scale(path):
    model = xdlc.convert(path, custom_io=write(path, CUSTOM))
    (x,), (y,) = model.main.inputs, model.main.outputs
    assert (x.shape, x.dtype.name, y.dtype.name) == ((1, 16, 16, 3), "ufixed8", "float16")
    assert (x.encoding.scale, x.encoding.offset) == (0.5, -128)
    image = np.random.default_rng(1).integers(-64, 63, (1, 3, 16, 16)).astype(np.float32)
    found = xdlc.run(model, {"x": image.transpose(0, 2, 3, 1)})["y"]
    expected = xdlc.run(xdlc.convert(path), {"x": image})["y"].astype(np.float16)
    np.testing.assert_array_equal(found.astype(np.float16), expected)


def test_a_configuration_has_shapes_and_layouts(path):
    made = xdlc.convert(path, config=write(path, CONFIG))
    assert made.main.inputs[0].shape == (1, 16, 16, 3)
    assert made.metadata["layouts"] == {"x": "NHWC"}


def test_templates_change_nothing_until_they_are_edited(path):
    plain = xdlc.convert(path)
    custom, config = (
        write(path, files.template(plain, has_sections=each), str(each)) for each in (False, True)
    )
    same = xdlc.convert(path, custom_io=custom, config=config)
    assert [op.type for op in same.main.ops] == [op.type for op in plain.main.ops]
    assert files.template(same) == files.template(plain)


def test_a_custom_file_beats_preserve_io_which_beats_other_options(path):
    options = {"desired_input_layout": {"x": "NHWC"}, "input_dtype": {"x": "uint8"}}
    notices: list[str] = []
    kept = xdlc.convert(path, preserve_io="layout x", notify=notices.append, **options)
    assert (kept.main.inputs[0].shape, kept.main.inputs[0].dtype.name) == ((1, 3, 16, 16), "uint8")
    assert any("desired_input_layout x" in notice for notice in notices)
    config = CONFIG.replace("DataType:\n", "DataType: uint8\n").replace(
        "Scale: , Offset:", "Scale: 0.5, Offset: 0"
    )
    notices.clear()
    kept = xdlc.convert(path, preserve_io="datatype", config=write(path, config), notify=notices.append)
    assert (kept.main.inputs[0].shape, kept.main.inputs[0].dtype.name) == ((1, 16, 16, 3), "float32")
    assert len(notices) == 1
    custom = write(path, CUSTOM)
    assert xdlc.convert(path, preserve_io=True, custom_io=custom).main.inputs[0].shape == (1, 16, 16, 3)
    for wrong in ({"preserve_io": "layot"}, {"preserve_io": "layout z"}, {"custom_io": custom, **options}):
        with pytest.raises(UsageError):
            xdlc.convert(path, **wrong)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("- IOName: z", 1),
        ("- IOName: x\n  Layot: {}\n- Datatype: float16", 2),
        ("- IOName: x\n  Datatype: uint8", 1),
        ("- IOName: x\n  QuantParam: { Scale: 0.5, Offset: 0 }", 1),
        ("- IOName: x\n  Datatype: int32\n  QuantParam: { Scale: 0.5, Offset: 0 }", 1),
        ("- IOName: x\n  Datatype: uint8\n  QuantParam: { Type: QNN_DEFINITION_DEFINED }", 1),
        ("- IOName: x\n  Datatype: uint8\n  QuantParam: { Scale: -1, Offset: true }", 1),
        ("- IOName: x\n  Datatype: uint8\n  Datatype: int8", 1),
        ("- IOName: x\n  Layout: { Model: NHWC, Custom: NHCW }", 1),
        ("- &a {IOName: x}\n- *a", 1),
        ("- !!python/object/apply:os.system [ls]", 1),
        ("[" * 5000, 1),
        ("- IOName: " + "x" * (1 << 18), 1),
        (b"- IOName: \xff\xfe", 1),
        ("- IOName: x\n  QuantParam: { Scale: " + "9" * 5000 + " }", 1),
        ("just text", 1),
        ("".join(f"- {{ IOName: z{number}, Datatype: int8 }}\n" for number in range(150)), MAX_PROBLEMS),
        ("", 1),
    ],
)
def test_files_that_request_nothing_possible(path, text, count):
    with pytest.raises(XdlcError) as raised:
        xdlc.convert(path, custom_io=write(path, text))
    assert len(each_problem(raised.value)) == count
    assert all(problem.where or problem.fix for problem in each_problem(raised.value))


@pytest.mark.parametrize(
    "text",
    [
        CONFIG.replace("1,3,16,16", "1,a"),
        CONFIG.replace("Layout: NHWC", "Layuot: NHWC"),
        "Converted Graph:\n  - Input Tensors: c1\n",
    ],
)
def test_configurations_that_fit_no_model(path, text):
    with pytest.raises((UsageError, ModelError)):
        xdlc.convert(path, config=write(path, text))


def test_a_file_that_is_missing(path):
    with pytest.raises(StorageError):
        xdlc.convert(path, custom_io="missing.yaml")


def test_shapes_and_outputs_are_for_converters(path):
    model = xdlc.convert(path)
    made = edit(model, boundary={"config": write(path, CONFIG)})
    assert made.main.inputs[0].shape == (1, 16, 16, 3)
    for text in (CONFIG.replace("16,16", "8,8"), "Converted Graph:\n  - Output Tensors: c1\n"):
        with pytest.raises(UsageError):
            edit(model, boundary={"config": write(path, text)})
