"""Data types that the reader of TorchScript gives results, held to torch's."""

from __future__ import annotations

from typing import Any

import pytest

from xdlc.converter.pytorch.calls import ScalarType
from xdlc.converter.pytorch.registry import aten
from xdlc.converter.pytorch.script.types import result_types
from xdlc.converter.pytorch.script.values import Tensor

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]

NUMBERS = {"uint8": 0, "int32": 3, "int64": 4, "float16": 5, "float32": 6, "bool": 11}
SHAPE = (3,)
KINDS = [("int64", "int64"), ("float32", "int32"), ("int32", "float32"), ("bool", "bool"), ("uint8", "uint8")]


def operators(torch: Any) -> list[tuple[str, Any]]:
    """Return the operators whose arguments without a default are one to three tensors."""
    lot = []
    for _, type in sorted(aten.all()):
        packet = getattr(torch.ops.aten, type, None)
        for overload in packet.overloads() if packet else ():
            operator = getattr(packet, overload)
            arguments = operator._schema.arguments
            writes = any(each.alias_info is not None and each.alias_info.is_write for each in arguments)
            required = [str(each.type) for each in arguments if not each.has_default_value()]
            if not writes and required and set(required) == {"Tensor"} and len(required) < 4:
                lot.append((type if overload == "default" else f"{type}.{overload}", operator))
    return lot


def test_types_of_results():
    torch = pytest.importorskip("torch")
    wrong, count = [], 0
    for name, operator in operators(torch):
        for kinds in KINDS:
            arguments, tensors = {}, {}
            for index, argument in enumerate(operator._schema.arguments):
                if argument.has_default_value():
                    arguments[argument.name] = argument.default_value
                    continue
                kind = kinds[index % 2]
                tensors[argument.name] = torch.ones(SHAPE, dtype=getattr(torch, kind))
                arguments[argument.name] = Tensor("x", ScalarType(NUMBERS[kind]), SHAPE)
            try:
                result = operator(**tensors)
            except (RuntimeError, IndexError, ValueError, TypeError):
                continue
            first = result[0] if isinstance(result, tuple | list) and result else result
            dtype = str(getattr(first, "dtype", "")).removeprefix("torch.")
            if dtype in NUMBERS:
                count += 1
                if (ours := result_types(name, arguments)[0]) != NUMBERS[dtype]:
                    wrong.append(f"{name} of {kinds}: {ours} for {dtype}")
    assert [each for each in wrong if not each.startswith("where of")] == []  # which lists places
    assert count > 1000
