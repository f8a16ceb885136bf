"""The ctypes mirrors against what a compiler makes of the header."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

from tests.support.compilers import INCLUDE, STRICT, needs_cc, run_cc
from xdlc.ir.dtype import BY_CODE, BY_NAME
from xdlc.runtime.udo import structs

MIRRORS = {
    "xdlc_udo_tensor": structs.Tensor,
    "xdlc_udo_param": structs.Param,
    "xdlc_udo_op": structs.Op,
    "xdlc_udo_shape": structs.Shape,
    "xdlc_udo_op_info": structs.OpInfo,
    "xdlc_udo_library_info": structs.LibraryInfo,
    "xdlc_udo_registration_info": structs.RegistrationInfo,
    "xdlc_udo_implementation_info": structs.ImplementationInfo,
    "xdlc_udo_infrastructure": structs.Infrastructure,
    "xdlc_udo_registration": structs.Registration,
    "xdlc_udo_implementation": structs.Implementation,
    "xdlc_udo_argument": structs.Argument,
}
HEADER = (INCLUDE / "xdlc_udo.h").read_text()
NAMES = set(re.findall(r"\b(XDLC_UDO_[A-Z0-9_]+)\b", HEADER))


@needs_cc
def test_sizes_offsets_and_numbers_are_those_of_the_header(tmp_path: Path) -> None:
    lines = []
    for name, mirror in MIRRORS.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for field, *_ in mirror._fields_:
            lines.append(f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
    constants = sorted(NAMES - {"XDLC_UDO_H", "XDLC_UDO_EXPORT"})
    lines += [f'printf("{name} %lld\\n", (long long){name});' for name in constants]
    source = tmp_path / "offsets.c"
    source.write_text(
        '#include <stdio.h>\n#include "xdlc_udo.h"\nint main(void) {' + "\n".join(lines) + "return 0;}\n"
    )
    run_cc([*STRICT, f"-I{INCLUDE}", str(source), "-o", str(tmp_path / "offsets")])
    told = subprocess.run(
        [tmp_path / "offsets"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    numbers = {name: int(number) for name, number in map(str.split, told.splitlines())}
    for name, mirror in MIRRORS.items():
        assert numbers[name] == ctypes.sizeof(mirror), name
        for field, *_ in mirror._fields_:
            assert numbers[f"{name}.{field}"] == getattr(mirror, field).offset, f"{name}.{field}"
    own = {
        "API_MAJOR": structs.API_MAJOR,
        "MAX_RANK": structs.MAX_RANK,
        "OPEN_EXTENT": structs.OPEN_EXTENT,
        "OMITTED": structs.OMITTED,
        "STATIC": structs.STATIC,
        "PARAM_SCALAR": structs.SCALAR,
        "PARAM_STRING": structs.STRING,
        "PARAM_TENSOR": structs.TENSOR,
        "LAYOUT_NONE": structs.LAYOUT_CODES[""],
        **{name: number for name, number in structs.LAYOUT_CODES.items() if name},
        **{name: bit for bit, name in structs.CORES.items()},
    }
    for name, number in own.items():
        assert numbers[f"XDLC_UDO_{name}"] == number, name
    for number, name in structs.STATUS.items():
        assert numbers[name] == number
    types = {
        name: n
        for name, n in numbers.items()
        if re.search(r"_(U?INT|FLOAT|[SU]FIXED_POINT|BOOL)_\d+$|_STRING$", name)
    }
    types.pop("XDLC_UDO_PARAM_STRING")
    assert set(types.values()) == set(BY_CODE) - {BY_NAME["undefined"].code, BY_NAME["bfloat16"].code}
    for name, number in types.items():
        word = name.removeprefix("XDLC_UDO_").replace("_POINT", "").replace("_", "").lower()
        assert BY_NAME[word].code == number


@needs_cc
def test_the_header_is_c99_and_cpp(tmp_path: Path) -> None:
    source = tmp_path / "header.c"
    source.write_text('#include "xdlc_udo.h"\nint main(void) { return 0; }\n')
    for flags in (["-std=c99", "-pedantic"], ["-x", "c++", "-std=c++11"]):
        run_cc([*STRICT, *flags, f"-I{INCLUDE}", "-c", str(source), "-o", str(tmp_path / "header.o")])


def test_texts_are_read_up_to_a_limit() -> None:
    buffer = ctypes.create_string_buffer(b"text\xff")
    assert structs.text_at(ctypes.addressof(buffer)) == "text\\xff"
    assert structs.text_at(ctypes.addressof(buffer), 2) == "te"
    assert structs.text_at(None) is None
