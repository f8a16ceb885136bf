"""What ``xdlc-info`` tells of operations that users define."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.commands import invoke
from tests.support.custom_ops import param, place
from xdlc.cli.tools.info import main
from xdlc.container import udo
from xdlc.ir import Graph, Model, Op, Tensor, f32, make_op, raw_data, static, string, u32
from xdlc.ir.dtype import BY_NAME, FLOAT32, STRING, UINT32
from xdlc.opdefs.model import Collection, OpDef, SupplementOp, SupplementTable, SupplementTensor

INTERP = OpDef(
    "Interp",
    "Pkg",
    (place("data", (), rank=4, layout="NHWC"), place("w", (), rank=2, is_static=True)),
    (place("out", (), rank=4, layout="NHWC"),),
    {
        "mode": param("mode", UINT32, enumeration=("NEAREST", "LINEAR")),
        "label": param("label", STRING, default="plain"),
        "gains": param("gains", FLOAT32, rank=2, default="[[1, 2], [3, 4]]"),
    },
    backends=("CPU", "DSP", "DSP_V66", "DSP_V68"),
)


def _table(core: str, dtype: str) -> SupplementTable:
    def types(*names: str) -> dict[str, SupplementTensor]:
        return {name: SupplementTensor(name, (BY_NAME[dtype],)) for name in names}

    row = SupplementOp("Interp", types("data", "w"), types("out"), {})
    return SupplementTable(core, frozenset({"Interp"}), {"Interp": (row,)})


def interp_model(*, defined: bool = True) -> Model:
    """Return a model of two ops of package Pkg, and one of an unknown package."""
    graph = Graph("main")
    x = graph.add_input(Tensor("x", (1, 2, 2, 3), FLOAT32))
    w = graph.add_tensor(static("w", np.float32([[1, 2]])))
    for index in range(2):
        y = Tensor(f"y{index}", (1, 2, 2, 3), FLOAT32)
        params = {"mode": u32(1), "label": string("blue"), "gains": static("", np.float32([[0.5, 0.25]]))}
        graph.append(make_op(graph, "Interp", [x, w], [y], params, name=f"interp_{index}", package="Pkg"))
        x = y
    z = Tensor("z", (1, 2, 2, 3), FLOAT32)
    graph.append(Op("Vendor", [x], [z], {"alpha": f32(0.5)}, name="vendor", package="their.pkg"))
    graph.add_output(z)
    model = Model({"main": graph})
    if defined:
        tables = (_table("CPU", "float32"), _table("DSP", "uint8"))
        udo.add_definitions(model, {"Pkg": Collection("Pkg", "my.domain", "1.2", (INTERP,), tables)})
    return model


def show(model: Model, folder: Path, *flags: str) -> str:
    path = folder / "a.dlc"
    model.save(path)
    result = invoke(main, "--ops", *flags, path, catch_exceptions=False)
    return result.stdout


def packages(model: Model, folder: Path) -> dict[str, Any]:
    return {package["name"]: package for package in json.loads(show(model, folder, "--json"))["packages"]}


def test_packages_tell_their_ops_types_cores_and_layouts(tmp_path: Path) -> None:
    package = packages(interp_model(), tmp_path)["Pkg"]
    assert (package["domain"], package["version"], package["definition"]) == ("my.domain", "1.2", True)
    (op_type,) = package["types"]
    assert (op_type["type"], op_type["count"], op_type["ops"]) == ("Interp", 2, ["interp_0", "interp_1"])
    assert (op_type["cores"], op_type["dsp_archs"]) == (["CPU", "DSP"], ["v66", "v68"])
    data, w = op_type["inputs"]
    assert data["dtypes"] == {"CPU": ["float32"], "DSP": ["uint8"]}
    assert (data["layouts"], data["rank"], data["static"]) == ({"any": "NHWC"}, 4, False)
    assert w["static"] is True
    mode, label, gains = op_type["params"]
    assert (mode["enumeration"], mode["dtypes"]) == (["NEAREST", "LINEAR"], {"any": ["uint32"]})
    assert (label["default"], label["mandatory"]) == ("plain", False)
    assert (gains["rank"], gains["default"]) == (2, "[[1, 2], [3, 4]]")


def test_text_shows_a_table_and_values_by_name(tmp_path: Path) -> None:
    text = show(interp_model(), tmp_path)
    assert "Pkg::Interp" in text
    assert "gains=[[0.5,0.25]]  label=blue  mode=1 (LINEAR)" in text
    assert "3: Pkg::Interp 2, their.pkg::Vendor 1" in text
    assert "user-defined operations of package Pkg  (domain my.domain, version 1.2)" in text
    assert "CPU float32; DSP uint8" in text
    assert "scalar, one of NEAREST|LINEAR" in text
    assert "rank 2, static" in text
    assert "scalar, optional, default plain" in text
    assert "other records" not in text


def test_ops_without_definitions_are_told_as_such(tmp_path: Path) -> None:
    model = interp_model(defined=False)
    found = packages(model, tmp_path)
    assert found["their.pkg"]["definition"] is False
    assert [held["type"] for held in found["their.pkg"]["types"]] == ["Vendor"]
    text = show(model, tmp_path)
    assert "user-defined operations of package their.pkg" in text
    assert "the DLC has no definitions" in text
    assert "alpha=0.5" in text


def test_a_damaged_record_is_reported_beside_the_rest(tmp_path: Path) -> None:
    model, name = interp_model(), "xdlc.udo.Pkg"
    model.records[name] = raw_data(b"no such thing \x1b[2J")
    text = show(model, tmp_path)
    assert "cannot be read" in text
    assert name in text
    assert "\x1b" not in text
    assert "interp_1" in text


def test_a_model_without_such_ops_has_no_packages(tmp_path: Path) -> None:
    graph = Graph("main")
    x = graph.add_input(Tensor("x", (2,), FLOAT32))
    y = Tensor("y", (2,), FLOAT32)
    graph.append(Op("Relu", [x], [y], name="r"))
    graph.add_output(y)
    model = Model({"main": graph})
    assert packages(model, tmp_path) == {}
    assert "user-defined" not in show(model, tmp_path)
