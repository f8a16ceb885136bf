"""Tests of the restricted unpickler."""

from __future__ import annotations

import collections
import os
import pickle
import time
from typing import Any

import numpy as np
import pytest

from tests.converter.pytorch.pickles import Call, Global, Made, pickled, tensor
from xdlc.converter.pytorch.pickled import Record, Storage, StoredTensor, unpickle
from xdlc.errors import ModelError

_STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x01tQ"


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize(
    "value",
    [
        None,
        [True, False, 0, -1, 255, 65535, -70000, 2**31, -(2**63), 2**64 - 1, 0.5],
        {"a": [1, (2, (3,), (4, 5), (6, 7, 8), (1, 2, 3, 4))], 3: {}},
        "text \u00e9" * 100,
        [[]] * 1000,
    ],
    ids=["None", "numbers", "nested", "text", "shared"],
)
def test_a_value_of_plain_python_is_itself(value: Any, protocol: int) -> None:
    assert unpickle(pickle.dumps(value, protocol), "x") == value


def test_an_ordered_dict_is_a_dict() -> None:
    value = collections.OrderedDict(a=1)
    assert unpickle(pickle.dumps(value, 2), "x") == {"a": 1}


def test_tensors_are_ranges_of_storages() -> None:
    plain = tensor("7", np.zeros((2, 3), np.float32))
    quantized = tensor("8", np.zeros((4,), np.int8), (Global("torch.per_tensor_affine"), 0.5, 3))
    parameter = Call("torch._utils._rebuild_parameter", (plain, True, Call("collections.OrderedDict", ())))
    found = unpickle(pickled([plain, quantized, parameter]), "x")
    expected = StoredTensor(Storage(6, "7"), 0, (2, 3), (3, 1))
    scheme = ("torch.per_tensor_affine", 0.5, 3)
    assert found == [expected, StoredTensor(Storage(12, "8"), 0, (4,), (1,), scheme), expected]


def test_objects_are_records() -> None:
    found = unpickle(pickled(Made("__torch__.Net", {"child": Made("__torch__.Child", (1, 2))})), "x")
    assert isinstance(found, Record)
    assert (found.kind, found.state["child"].kind) == ("__torch__.Net", "__torch__.Child")
    assert found.state["child"].state == (1, 2)


class _Hostile:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self._call = call, arguments

    def __reduce__(self) -> Any:
        return self._call


def test_nothing_of_a_pickle_runs(tmp_path: Any) -> None:
    made = tmp_path / "made"
    found = unpickle(pickle.dumps([_Hostile(os.mkdir, str(made)), _Hostile(exec, "1/0")], 2), "x")
    assert [record.kind.rpartition(".")[2] for record in found] == ["mkdir", "exec"]
    assert not made.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b".",
        b"\x80\x02",
        b"\x80\x02K\x01",
        b"h\x00.",
        b"0.",
        b"t.",
        b"\x86.",
        b"NR.",
        b"X\xff\xff\xff\xff.",
        b"X\x02\x00\x00\x00\xff\xff.",
        b"\x8b\xff\xff\xff\x7f.",
        b"Na.",
        b"]NK\x01s.",
        b"}](s.",
        b"}]Ns.",
        b"NQ.",
        b"(X\x07\x00\x00\x00storageNNtQ.",
        b"]q\x00h\x00a.",  # a list in itself
        b"}q\x00Nh\x00s.",
        b"cA\nB\n)\x81q\x00h\x00b.",
        b"]" * 300 + b"a" * 299 + b".",
        b")" + b"\x85" * 300 + b".",
        b"ctorch._utils\n_rebuild_tensor_v2\n(NNNNNNtR.",
        b"ctorch._utils\n_rebuild_tensor_v2\n(" + _STORAGE + b"NN)N)tR.",
        b"ctorch._utils\n_rebuild_tensor_v2\n(" + _STORAGE + b"K\x00(Nt)N)tR.",
        b"ctorch._utils\n_rebuild_qtensor\n(" + _STORAGE + b"K\x00)))N)tR.",
        b"c" + b"a" * 2000 + b"\nb\n.",
        b"N" * (1 << 21),
        b"\x00" * ((1 << 25) + 1),
        b"I1\n.",
        b"i" + b"os\nsystem\n.",
    ],
)
def test_a_damaged_pickle_is_refused(data: bytes) -> None:
    with pytest.raises(ModelError):
        unpickle(data, "x")


@pytest.mark.parametrize(
    "data",
    [
        b")" + b"q\x00h\x00\x86" * 150 + b".",  # 2 ** 150 leaves
        b"(" + b"N" * 100_000 + b"tq\x000" + b"]" + b"(" + b"cA\nB\nh\x00R" * 20_000 + b"e.",
        b"(" + b"N" * 100_000 + b"lq\x000]("
        + b"ctorch.jit._pickle\nbuild_intlist\nh\x00\x85R" * 4_000 + b"e.",
    ],
    ids=["tuples", "arguments", "lists"],
)  # fmt: skip
def test_shared_values_are_not_copied(data: bytes) -> None:
    start = time.process_time()
    unpickle(data, "x")
    assert time.process_time() - start < 2
