"""Damaged containers of format 3, read, translated and saved: soon an error."""

import contextlib
import struct
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.container.test_old_formats import foreign_file, prefixed, write
from tests.converter.snpe.test_layers import Net
from tests.support.differences import differences
from xdlc.container import load
from xdlc.container.archive import read_entries
from xdlc.container.flatbuffer_encode import encode
from xdlc.converter.snpe.translate import translate
from xdlc.errors import ContainerError, XdlcError
from xdlc.ir import MappedFile, ScaleOffset, i32, static, string
from xdlc.ir.dtype import INT32
from xdlc.schema._generated import dlc3_model
from xdlc.schema._generated.dlc3_model import Attribute

DEADLINE = 5.0
SEARCH = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def spans(path):
    source = MappedFile(path)
    return {name: (at.offset, at.size) for name, at in read_entries(source).items()}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "good.dlc"
    foreign_file(path)
    return path


def use(path):
    """Do all that can be done with a file."""
    started = time.monotonic()
    with contextlib.suppress(XdlcError):
        model = load(path)
        with contextlib.suppress(XdlcError):
            translate(model)
        target = path.with_suffix(".again")
        with contextlib.suppress(XdlcError):
            model.save(target)
            again = load(target)
            assert differences(again, model, ["metadata"]) == []
    assert time.monotonic() - started < DEADLINE


@SEARCH
@given(flips=st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(1, 255)), min_size=1, max_size=5))
def test_flipped_bytes(good, tmp_path_factory, flips):
    content = bytearray(good.read_bytes())
    for position, mask in flips:
        content[position % len(content)] ^= mask
    path = tmp_path_factory.mktemp("flips") / "m.dlc"
    path.write_bytes(content)
    use(path)


@SEARCH
@given(data=st.data(), name=st.sampled_from(["model", "model.params"]))
def test_flipped_words(good, tmp_path_factory, data, name):
    content = bytearray(good.read_bytes())
    offset, size = spans(good)[name]
    for _ in range(data.draw(st.integers(1, 3))):
        position = offset + 4 * data.draw(st.integers(0, (size - 4) // 4))
        value = data.draw(
            st.sampled_from([0, 1, 2, 3, 5, 8, 11, 32, 0x7F, 0xFFFF, 1 << 20, 1 << 31, (1 << 32) - 1])
        )
        struct.pack_into("<I", content, position, value)
    path = tmp_path_factory.mktemp("words") / "m.dlc"
    path.write_bytes(content)
    use(path)


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
