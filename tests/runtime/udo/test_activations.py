"""Types of activations and defaults of inputs are alike for all kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.runtime.udo.udo_graphs import custom_graph
from xdlc import api
from xdlc.container.udo import add_definitions, definitions
from xdlc.errors import ProblemList
from xdlc.ir import Model, ScaleOffset
from xdlc.ir.dtype import BY_CODE, BY_NAME, UFIXED8
from xdlc.opdefs.backend_view import on_cpu
from xdlc.opdefs.xml_reader import parse_collection
from xdlc.runtime.udo.build_descriptor import form_of
from xdlc.runtime.udo.descriptor import OpForm

KERNEL = """\
import numpy as np
from xdlc.udo import kernel

@kernel("Math", "Op")
def f(inputs, params, outputs):
    assert inputs[0].dtype == outputs[0].dtype.numpy
    assert [array.tolist() for array in inputs[1:]] == [[0.5], [1, 2]]
    return inputs[0] + np.uint8(3)
"""


def operand(kind: str, name: str, dtypes: str, more: str = "") -> str:
    types = "".join(f"<Datatype>{dtype}</Datatype>" for dtype in dtypes.split())
    mandatory = "false" if "Default" in more else "true"
    return (
        f"<{kind}><Name>{name}</Name><Mandatory>{mandatory}</Mandatory>{types}"
        f"<Shape><Rank>ND</Rank></Shape>{more}</{kind}>"
    )


def op_of(dtype: str, dtypes: str, backends: str = "CPU", own: str = "", more: str = "") -> Model:
    """Return a model of one op and its definition.

    Args:
        dtype: Type of its input and output.
        dtypes: Types of the definition.
        backends: What it is for.
        own: Types of a supplement for the CPU.
        more: Further inputs of the definition.
    """
    supplement = "".join(operand(kind, name, own) for kind, name in (("Input", "x"), ("Output", "y")))
    for word in ("<Mandatory>true</Mandatory>", "<Shape><Rank>ND</Rank></Shape>"):
        supplement = supplement.replace(word, "")
    table = (
        "<SupplementalOpDefList Backend='CPU'><SupportedOps><OpName>Op</OpName></SupportedOps>"
        f"<SupplementalOpDef><Name>Op</Name>{supplement}</SupplementalOpDef></SupplementalOpDefList>"
    )
    core = "".join(f"<SupportedBackend>{name}</SupportedBackend>" for name in backends.split())
    text = (
        "<OpDefCollection PackageName='Math' Domain='d' Version='1'><OpDefList><OpDef><Name>Op</Name>"
        f"{operand('Input', 'x', dtypes)}{more}{operand('Output', 'y', dtypes)}{core}</OpDef></OpDefList>"
        f"{table if own else ''}</OpDefCollection>"
    )
    held = BY_NAME[dtype]
    encoding = ScaleOffset(1.0, 0) if held is UFIXED8 else None
    model = Model({"graph": custom_graph("Op", shape=(3,), dtype=held, encoding=encoding)})
    add_definitions(model, {"Math": parse_collection(text.encode(), "test.xml")})
    return model


def formed(model: Model) -> OpForm:
    (collection,) = definitions(model).values()
    (opdef,), (op,) = collection.opdefs, model.main.ops
    return form_of(op, on_cpu(opdef, collection) or opdef)[0]


@pytest.mark.parametrize(
    ("dtype", "dtypes", "backends", "own"),
    [
        ("float32", "FLOAT_32", "CPU", ""),
        ("ufixed8", "FLOAT_32 UINT_8", "CPU DSP_V66", ""),
        ("ufixed8", "UFIXED_POINT_8", "CPU", ""),
        ("uint8", "FLOAT_32 UINT_8", "CPU", ""),
        ("float32", "FLOAT_32 UINT_8", "CPU", ""),
        ("uint8", "FLOAT_32 UINT_8", "CPU DSP", "FLOAT_32 UINT_8"),
        ("uint8", "UINT_8", "CPU DSP", ""),
        ("float32", "UINT_8", "DSP", ""),  # what the op is on a CPU is said nowhere
        ("int32", "INT_32", "CPU", ""),
    ],
)
def test_what_a_kernel_takes(dtype: str, dtypes: str, backends: str, own: str) -> None:
    form = formed(op_of(dtype, dtypes, backends, own))
    assert BY_CODE[form.inputs[0].dtype].name == dtype.replace("ufixed8", "float32")
    assert form.outputs[0].dtype == form.inputs[0].dtype


@pytest.mark.parametrize(
    ("dtype", "dtypes", "backends", "own", "said"),
    [
        (
            "uint8",
            "FLOAT_32 UINT_8",
            "CPU DSP",
            "",
            "is uint8 in the model; its definition supports FLOAT_32",
        ),
        (
            "uint8",
            "FLOAT_32 UINT_8",
            "CPU DSP",
            "FLOAT_32",
            "is uint8 in the model; its definition supports FLO",
        ),
        (
            "float32",
            "UINT_8",
            "CPU DSP",
            "",
            "is float32 in the model; its definition supports UINT_8 on a CPU",
        ),
        ("ufixed8", "UINT_8", "CPU DSP", "", "is ufixed8 in the model, for kernels FLOAT_32; its definition"),
        ("float32", "FLOAT_64", "CPU", "", "is float32 in the model; its definition supports FLOAT_64"),
        ("int32", "FLOAT_32", "CPU", "", "is int32 in the model; its definition supports FLOAT_32"),
    ],
)
def test_what_no_kernel_takes(dtype: str, dtypes: str, backends: str, own: str, said: str) -> None:
    with pytest.raises(ProblemList) as caught:
        formed(op_of(dtype, dtypes, backends, own))
    first, second = caught.value.problems
    assert first.problem.startswith(f"input 0 ('x') {said}")
    assert second.problem.startswith("output 0 ('y')")
    assert first.where == "graph 'graph': op 'custom' (Math::Op)"
    assert "per_core_data_types" in str(first.fix)


def test_bytes_and_inputs_that_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(KERNEL)
    more = operand("Input", "half", "FLOAT_32", "<Default>0.5</Default>")
    more += operand("Input", "steps", "INT_32", "<Default>[1, 2]</Default>")
    model = op_of("uint8", "FLOAT_32 UINT_8", more=more)
    got = api.run(model, {"x0": np.uint8([1, 2, 200])}, udo_package_path=tmp_path / "k.py")["y"]
    assert (got.dtype, got.tolist()) == (np.uint8, [4, 5, 203])
