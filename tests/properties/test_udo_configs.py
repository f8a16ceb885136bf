"""Random definitions read back as written, or a notice names the loss."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xdlc.ir.dtype import (
    BOOL8,
    FLOAT16,
    FLOAT32,
    INT32,
    SFIXED8,
    STRING,
    UFIXED8,
    UFIXED16,
    UINT8,
    UINT32,
    DType,
)
from xdlc.opdefs.backends import NAMES
from xdlc.opdefs.model import (
    Collection,
    Constraint,
    DescriptionPart,
    OpDef,
    ParamDef,
    Reference,
    SupplementOp,
    SupplementTable,
    SupplementTensor,
    TensorDef,
)
from xdlc.opdefs.xml_reader import parse_collection
from xdlc.opdefs.xml_writer import write_collection
from xdlc.udo.config import read, write_json
from xdlc.udo.config.defaults import differences

NUMBERS = (FLOAT16, FLOAT32, INT32, UINT32, UINT8, UFIXED8, UFIXED16, SFIXED8, BOOL8)
TEXTS = ("Blurs.", "a < b & c > d", 'says "x"', "été 漢字", "two\nlines", "[1, 2]", "1", "true")


class Definitions:
    """Makes definitions that keep the rules."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def some(self, items: Any, most: int = 2) -> tuple[Any, ...]:
        held = list(items)
        return tuple(self.rng.sample(held, self.rng.randint(0, min(most, len(held)))))

    def maybe(self, value: Any, otherwise: Any) -> Any:
        return value if self.rng.random() < 0.4 else otherwise

    def collection(self) -> Collection:
        opdefs_ = tuple(self.op(f"Op{i}") for i in range(self.rng.randint(1, 3)))
        tables = self.tables(opdefs_)
        domain, version = self.maybe("com.me", ""), self.maybe("2.0", "1.0")
        return Collection(f"Pkg{self.rng.randint(0, 9)}", domain, version, opdefs_, tables)

    def op(self, name: str) -> OpDef:
        params = [self.param(f"p{i}") for i in range(self.rng.randint(0, 4))]
        inputs = [self.tensor(f"in[{i}]") for i in range(self.rng.randint(1, 3))]
        outputs = [self.tensor(f"out[{i}]") for i in range(self.rng.randint(1, 2))]
        package = "set later"
        backends = ("CPU", *self.some(name for name in NAMES if name != "CPU"))
        return OpDef(
            name,
            package,
            tuple(inputs),
            tuple(outputs),
            {param.name: param for param in params},
            self.description(),
            tuple(Reference(text, self.maybe("https://onnx.ai", "")) for text in self.some(["ONNX", "TF"])),
            backends,
        )

    def description(self) -> tuple[DescriptionPart, ...]:
        return tuple(DescriptionPart(text, self.rng.random() < 0.3) for text in self.some(TEXTS))

    def shared(self, rank: int | None) -> dict[str, Any]:
        return {
            "rank": rank,
            "text": self.maybe("[n, 3]" if rank == 2 else "", ""),
            "constraints": tuple(
                Constraint(str(i), self.rng.choice(["Shape", "Value", ""]), text)
                for i, text in enumerate(self.some(TEXTS))
            ),
            "description": self.description(),
        }

    def dtypes(self) -> tuple[DType, ...]:
        return self.some(NUMBERS, 3) or (FLOAT32,)

    def tensor(self, name: str) -> TensorDef:
        rank = self.rng.choice([None, 1, 2, 3, 4])
        layout = self.maybe("NHWC", "") if rank == 4 else ""
        return TensorDef(name, True, self.dtypes(), layout=layout, **self.shared(rank))

    def param(self, name: str) -> ParamDef:
        if self.rng.random() < 0.3:
            default = self.maybe(self.rng.choice(("fast", "1", "a b", "[x", "été")), None)
            mandatory = default is None and self.rng.random() < 0.5
            return ParamDef(name, mandatory, (STRING,), default=default, **self.shared(0))
        if self.rng.random() < 0.3:
            names = ("MIN", "MAX", "A b")
            default = self.maybe(self.rng.choice((*names, "2")), None)
            return ParamDef(
                name, default is None, (UINT32,), default=default, enumeration=names, **self.shared(0)
            )
        is_scalar = self.rng.random() < 0.5
        dtype = self.rng.choice(NUMBERS)
        default = self.maybe(self.value(dtype, is_scalar), None)
        mandatory = default is None and self.rng.random() < 0.5
        return ParamDef(name, mandatory, (dtype,), default=default, **self.shared(0 if is_scalar else None))

    def value(self, dtype: DType, is_scalar: bool) -> str:
        number = (
            "1"
            if dtype is BOOL8 or not dtype.is_float
            else self.rng.choice(["1.50", "-2e-3", ".5", "1", "3."])
        )
        return (
            number
            if is_scalar
            else self.rng.choice([f"[{number}, {number}]", f"({number})", f"{{[{number}], [{number}]}}"])
        )

    def tables(self, ops: tuple[OpDef, ...]) -> tuple[SupplementTable, ...]:
        tables = []
        for backend in sorted({backend for op in ops for backend in op.backends}):
            own = [op for op in ops if backend in op.backends]
            rows = {op.name: (self.row(op),) for op in own if self.rng.random() < 0.3}
            if rows:
                tables.append(SupplementTable(backend, frozenset(self.some([op.name for op in own])), rows))
        return tuple(tables)

    def row(self, op: OpDef) -> SupplementOp:
        first = op.inputs[0]
        held = SupplementTensor(first.name, self.some(first.dtypes), first.constraints, layout=first.layout)
        return SupplementOp(op.name, {first.name: held}, {}, {})


def packaged(collection: Collection) -> Collection:
    """Return a collection as it reads: written as XML and read again."""
    return parse_collection(write_collection(collection).encode(), "c.xml")


def without_defaults(collection: Collection) -> Collection:
    """Return a collection without the texts of defaults."""
    ops = tuple(
        replace(
            op,
            inputs=tuple(replace(tensor, default=None) for tensor in op.inputs),
            params={name: replace(param, default=None) for name, param in op.params.items()},
        )
        for op in collection.opdefs
    )
    return replace(collection, opdefs=ops)


@pytest.mark.parametrize("seed", range(40))
def test_there_and_back(seed: int, tmp_path: Path) -> None:
    first = packaged(Definitions(seed).collection())
    path = tmp_path / "c.json"
    notices: list[str] = []
    path.write_text(write_json([first], extended=True, notify=notices.append))
    (second,) = read(path)
    assert notices == []
    assert without_defaults(first) == without_defaults(second)
    assert list(differences(first, second)) == []
    assert list(differences(second, packaged(second))) == []
    assert write_json([packaged(second)], extended=True) == path.read_text()


@pytest.mark.parametrize("seed", range(40))
def test_what_the_plain_form_loses_is_told(seed: int, tmp_path: Path) -> None:
    first = packaged(Definitions(seed).collection())
    path = tmp_path / "c.json"
    notices: list[str] = []
    path.write_text(write_json([first], notify=notices.append))
    assert "xdlc_" not in path.read_text()
    (second,) = read(path)
    assert [line.partition(": ")[0] for line in notices] == [part for part, _ in differences(first, second)]
    again: list[str] = []
    text = write_json([packaged(second)], notify=again.append)
    assert (json.loads(text), again) == (json.loads(path.read_text()), [])
