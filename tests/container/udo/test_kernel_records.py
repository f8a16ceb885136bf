"""What a DLC tells of kernels of users, also in files of strangers."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.custom_ops import scale_graph
from xdlc.api.plugins import write_kernels
from xdlc.container import load, udo
from xdlc.errors import ContainerError
from xdlc.ir import raw_data
from xdlc.opdefs.source_match import Kernel

KERNEL = Kernel("scale", "scale_run", "ifs", (1, 0.5, "a"), "linux-x86_64", "gcc 12", b"\x7fELF...")


def test_kernels_are_stored_and_read_again(tmp_path: Path) -> None:
    model = scale_graph()
    assert udo.add_kernel(model, "Pkg", "Scale", ["s"], KERNEL) == "xdlc.kernel.Pkg.Scale.0"
    assert udo.add_kernel(model, "Pkg", "Scale", ["t", "u"], KERNEL) == "xdlc.kernel.Pkg.Scale.1"
    model.save(tmp_path / "m.dlc")
    first, second = udo.kernels(load(tmp_path / "m.dlc"))
    assert (first.package, first.type, first.ops, first.kernel) == ("Pkg", "Scale", ("s",), KERNEL)
    assert second.ops == ("t", "u")
    (binary,) = (name for name in model.records if name.startswith(udo.BINARIES))
    assert binary == udo.BINARIES + first.digest == udo.BINARIES + second.digest


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64, np.float16, np.float64, np.dtype(">i4")])
def test_arrays_are_arguments_too(dtype: Any) -> None:
    made, array = scale_graph(), np.arange(6).reshape(2, 3).astype(dtype)
    udo.add_kernel(made, "Pkg", "Scale", ["s"], replace(KERNEL, arguments="oi", values=(array, np.int32(3))))
    (held,) = udo.kernels(made)
    first, second = held.kernel.values
    assert first.dtype == np.dtype(dtype).newbyteorder("<")
    assert (first == array).all()
    assert second == 3


def test_a_kernel_whose_values_have_no_form_is_refused() -> None:
    wrong = Kernel("k", "e", "o", (object(),), "m", "t", b"x")
    with pytest.raises(ContainerError, match="no form as JSON"):
        udo.add_kernel(scale_graph(), "Pkg", "Scale", ["s"], wrong)


DIGEST = hashlib.sha256(b"binary").hexdigest()


def _content(**changes: Any) -> bytes:
    head = {
        "format": 2,
        "package": "Pkg",
        "type": "Scale",
        "ops": ["s"],
        "name": "k",
        "entry": "run",
        "arguments": "i",
        "values": [1],
        "machine": "m",
        "tool": "t",
        "binary": DIGEST,
    }
    return json.dumps(head | changes).encode()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b" " * (1 << 24) + b"1", "has 16777217 bytes"),
        (b"\xff\xff{}", "is no JSON"),
        (b"[" * 60000, "is no JSON"),
        (b"[]", "no JSON object"),
        (_content(format=1), "is of format 1"),
        (_content(entry=3), "'entry' is no text"),
        (_content(package="Other"), "is of Other::Scale"),
        (_content(ops="s"), "'ops' are no names"),
        (_content(ops=[1]), "'ops' are no names"),
        (_content(values={}), "'values' are no list"),
        (_content(values=[{}]), "without type, shape and data"),
        (_content(values=[None]), "a NoneType"),
        (_content(values=[1 << 63]), "64 bits do not hold"),
        (_content(arguments="f", values=[10**400]), "64 bits do not hold"),
        (_content(values=[{"dtype": "string", "shape": [], "data": ""}]), "without type"),
        (_content(values=[{"dtype": "int8", "shape": [1 << 40], "data": ""}]), "of shape"),
        (_content(values=[{"dtype": "int8", "shape": [9] * 99, "data": ""}]), "without type"),
        (_content(values=[{"dtype": "int8", "shape": [True], "data": "AA=="}]), "of shape"),
        (_content(values=[{"dtype": "int8", "shape": [3], "data": "AA=="}]), "of 1 bytes"),
        (_content(values=[{"dtype": "int8", "shape": [3], "data": "?"}]), "is none"),
        (_content(values=[1, 2]), "1 arguments, but 2 values"),
        (_content(arguments="z"), "not all of i, s, f and o"),
        (_content(binary=None), "'binary' is no SHA-256"),
        (_content(binary=f"{DIGEST}\n"), "'binary' is no SHA-256"),
        (_content(binary="0" * 64), "'xdlc.kernel_binary.0{64}', is missing"),
        (_content(binary="1" * 64), "'xdlc.kernel_binary.1{64}', has the SHA-256 " + DIGEST),
    ],
)
def test_damaged_kernels_are_refused(content: bytes, text: str) -> None:
    model = scale_graph()
    for digest in DIGEST, "1" * 64:
        model.records[f"xdlc.kernel_binary.{digest}"] = raw_data(b"binary")
    model.records["xdlc.kernel.Pkg.Scale.0"] = raw_data(content)
    with pytest.raises(ContainerError, match=text) as caught:
        udo.kernels(model)
    assert "xdlc.kernel.Pkg.Scale.0" in str(caught.value.where)


def test_kernels_as_files_have_names_of_their_own(tmp_path: Path) -> None:
    made = scale_graph()
    for number, name in enumerate(("k_2", "k", "k")):
        udo.add_kernel(made, "Pkg", "Scale", [str(number)], replace(KERNEL, name=name))
    assert len(set(write_kernels(made, tmp_path))) == len(list(tmp_path.iterdir())) == 6
