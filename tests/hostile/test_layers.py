"""Operations stored as layers of format 3, whole and malformed."""

import numpy as np
import pytest

from tests.container.test_old_formats import prefixed, write
from tests.converter.snpe.test_layers import Net
from xdlc.container import load
from xdlc.container.flatbuffer_encode import encode
from xdlc.converter.snpe.translate import translate
from xdlc.errors import ContainerError, XdlcError
from xdlc.ir import ScaleOffset, i32, static, string
from xdlc.ir.dtype import INT32
from xdlc.schema._generated import dlc3_model
from xdlc.schema._generated.dlc3_model import Attribute


def test_deep_attributes_are_refused(tmp_path):
    deep = Attribute("a", 2)
    for _ in range(100):
        deep = Attribute("a", 11, attributes=[deep])
    content = prefixed(3, 0, encode(dlc3_model.Model(0, [], (), (), [deep])))
    with pytest.raises(ContainerError):
        load(write(tmp_path / "m.dlc", {"model": content}))


def _stored():
    """Return layers with a Prelu and a Transpose as earlier xdlc wrote them."""
    net = Net(1, 4)
    slope = {
        "dims": [4],
        "dtype": "ufixed8",
        "name": "slope",
        "axis": -1,
        "bits": 0,
        "scales": [0.5],
        "offsets": [-3],
    }
    prelu = {f"operands.1.{key}": value for key, value in slope.items()}
    net.layer("qti.aisw::Prelu", [(1, 4)], prelu, operand_1=np.arange(4, dtype=np.uint8))
    perm = {"params.perm.dims": [2], "params.perm.dtype": "uint32", "params.perm.data": [1, 0]}
    net.layer("qti.aisw::Transpose", [(4, 1)], perm)
    return net.model()


def test_operations_stored_as_layers():
    prelu, transpose = translate(_stored()).main.ops
    assert (prelu.package, prelu.type, transpose.type) == ("qti.aisw", "Prelu", "Transpose")
    assert prelu.inputs[1].encoding == ScaleOffset(0.5, -3)
    assert prelu.inputs[1].numpy().tolist() == [0, 1, 2, 3]
    assert transpose.params["perm"].numpy().tolist() == [1, 0]


def _op(model, type):
    return next(op for op in model.main.ops if op.type.endswith(type))


def _ints(*values):
    return static("", np.asarray(values, np.int32), INT32)


@pytest.mark.parametrize(
    ("type", "changes", "problem"),
    [
        ("Prelu", {"operands.1.dims": _ints(-1)}, "of the invalid shape"),
        ("Prelu", {"operands.1.dims": _ints(9)}, "bytes for"),
        ("Prelu", {"operands.1.dtype": string("odd")}, "unknown data type 'odd'"),
        ("Prelu", {"operands.1.dtype": string("string")}, "unknown data type 'string'"),
        (
            "Prelu",
            {"operands.1.scales": static("", np.zeros(1, np.float32))},
            "malformed encoding",
        ),
        ("Prelu", {"operands.1.axis": i32(7)}, "scales along axis 7"),
        ("Prelu", {"operands.1": i32(7)}, "no list 'dims'"),
        ("Prelu", {"operands.7.dims": _ints(1)}, "gaps between"),
        ("Prelu", {"operands": i32(7)}, "expected a tensor, found nothing"),
        ("Transpose", {"params.perm.data": _ints(1)}, "1 numbers for a parameter"),
        ("Transpose", {"params.perm.dtype": string("int4")}, "unknown data type 'int4'"),
        ("Transpose", {"params.perm.dims": _ints(2, 2, 2)}, "2 numbers for a parameter"),
        ("Transpose", {"params.perm": _ints(1)}, "list as a parameter"),
        ("Transpose", {"outputs.0": string("none")}, "unknown data type 'none'"),
        ("Transpose", {"left_out": string("0")}, "no list 'left_out'"),
        ("Transpose", {"left_out": _ints(0)}, "expected a tensor, found nothing"),
    ],
)
def test_malformed_operations_are_refused(type, changes, problem):
    model = _stored()
    op = _op(model, type)
    for name, value in changes.items():
        for held in [key for key in op.params if key.startswith(f"{name}.")]:
            del op.params[held]
        op.params[name] = value
    with pytest.raises(XdlcError, match=problem):
        translate(model)
