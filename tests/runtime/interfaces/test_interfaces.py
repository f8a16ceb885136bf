"""The vendor's interfaces: stand-in headers, ctypes and page say the same."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.reference import pages
from tests.support.compilers import STRICT, include_folder, needs_cc, run_cc
from tests.udo.generator.device_package import SHIMS
from xdlc.ir.dtype import BY_CODE, BY_NAME
from xdlc.runtime import interfaces
from xdlc.runtime.htp import structs

HEADERS = [header.file for header in interfaces.headers()]
RECORDS = [item for item in interfaces.types().values() if item.kind == "struct"]


def members(item: interfaces.CType) -> Iterator[tuple[str, int]]:
    """Yield named fields of a struct with offsets, and the first of a union."""
    kind = interfaces.ctype(item.name)
    for member in item.members:
        name = interfaces.field(member)[0]
        inner = member if " " in member else interfaces.types()[member].members[0]
        yield interfaces.field(inner)[0], getattr(kind, name).offset


@needs_cc
def test_a_compiler_agrees_with_ctypes(tmp_path: Path) -> None:
    lines = [f'#include "{path}"' for path in HEADERS] + ["#include <stdio.h>", "int main(void) {"]
    expected = {}
    for item in RECORDS:
        lines.append(f'printf("{item.name} %zu\\n", sizeof({item.name}));')
        expected[item.name] = ctypes.sizeof(interfaces.ctype(item.name))
        for name, offset in members(item):
            lines.append(f'printf("{item.name}.{name} %zu\\n", offsetof({item.name}, {name}));')
            expected[f"{item.name}.{name}"] = offset
    for name, number in interfaces.constants().items():
        lines.append(f'printf("{name} %lld\\n", (long long){name});')
        expected[name] = number
    source = tmp_path / "offsets.c"
    source.write_text("\n".join([*lines, "return 0; }\n"]))
    include = ("-isystem", str(include_folder()), "-isystem", str(SHIMS))
    run_cc([*STRICT, *include, str(source), "-o", str(tmp_path / "offsets")])
    told = subprocess.run(
        [tmp_path / "offsets"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    numbers = {name: int(number) & 0xFFFFFFFF for name, number in map(str.split, told.splitlines())}
    assert numbers == expected


@needs_cc
@pytest.mark.parametrize("flags", [("-x", "c", "-std=c11"), ("-x", "c++", "-std=c++11")])
def test_each_header_stands_alone(tmp_path: Path, flags: tuple[str, ...]) -> None:
    for number, path in enumerate(HEADERS):
        source = tmp_path / f"{number}.c"
        source.write_text(f'#include "{path}"\nint unused;\n')
        include = ("-isystem", str(include_folder()), "-isystem", str(SHIMS))
        run_cc([*STRICT, *flags, "-pedantic", *include, "-fsyntax-only", str(source)])


def test_the_page_has_every_offset_and_number() -> None:
    text = pages()["reference/op-package-interfaces.md"]
    for item in RECORDS:
        part = text[text.index(f"**{item.name}**, struct") :]
        kind = interfaces.ctype(item.name)
        rows = re.findall(r"^\| (\d+) \| (.*) \|$", part[: part.index("| end |") + 10], re.M)
        assert [int(offset) for offset, _ in rows] == [
            *(getattr(kind, interfaces.field(member)[0]).offset for member in item.members),
            ctypes.sizeof(kind),
        ]
    for item in interfaces.types().values():
        if item.kind == "enum":
            assert all(f"- `{member}`" in text for member in item.members)


def test_data_types_have_the_numbers_of_models() -> None:
    names = interfaces.names("Qnn_DataType_t", "QNN_DATATYPE_")
    absent = {BY_NAME["undefined"].code, BY_NAME["bfloat16"].code}
    assert names.keys() - {0x7FFFFFFF} == BY_CODE.keys() - absent


@pytest.mark.parametrize(
    ("mirror", "name", "members"),
    [
        (structs.QnnOpConfig, "Qnn_OpConfigV1_t", ("name", "package", "type", "param_count", "params")),
        (structs.QnnParam, "Qnn_Param_t", ("kind", "name", "payload")),
        (structs.QnnScalar, "Qnn_Scalar_t", ("data_type", "value")),
        (structs.QnnBitsAxis, "Qnn_BwAxisScaleOffset_t", ("bits", "axis", "count", "scales", "offsets")),
    ],
)
def test_the_mirrors_of_the_htp_are_laid_out_alike(mirror: type, name: str, members: tuple[str, ...]) -> None:
    kind = interfaces.ctype(name)
    shift = 8 if name == "Qnn_OpConfigV1_t" else 0  # the version, in front
    offsets = [
        getattr(kind, interfaces.field(member)[0]).offset for member in interfaces.types()[name].members
    ]
    assert [getattr(mirror, member).offset - shift for member in members] == offsets[: len(members)]


def test_tensors_of_the_htp_are_laid_out_alike() -> None:
    names = [
        "id",
        "name",
        "type",
        "data_format",
        "data_type",
        "quantize",
        "rank",
        "dims",
        "mem_type",
        "client_data",
    ]
    kind = interfaces.ctype("Qnn_TensorV2_t")
    offsets = [getattr(kind, field).offset for field, *_ in kind._fields_]
    names += ["dynamic", "sparse_layout", "produced"]
    assert [getattr(structs.QnnTensor, name).offset - 8 for name in names] == offsets
    assert ctypes.sizeof(structs.QnnTensor) == ctypes.sizeof(interfaces.ctype("Qnn_Tensor_t"))


def test_a_union_is_read_as_any_of_its_members() -> None:
    scalar = interfaces.ctype("Qnn_Scalar_t")()
    interfaces.overlay(scalar, "value", ctypes.c_double).value = 1.5
    assert interfaces.overlay(scalar, "value", ctypes.c_uint64).value == 0x3FF8000000000000
