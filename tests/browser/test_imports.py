"""What xdlc reads of a DLC without the modules that Python in a browser lacks."""

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import xdlc
from tests.container.test_old_formats import write_30
from tests.support.cache_models import put_cache
from tests.support.section_models import residual
from xdlc.container.aip_record import OWN_FLAVOUR, AipRecord, Engine, Section, write_aip
from xdlc.content.inspection import inspect
from xdlc.ir import BlockScaleOffset, static
from xdlc.ir.dtype import BFLOAT16, SFIXED8
from xdlc.view.content import side

MISSING = (
    "subprocess",
    "multiprocessing",
    "fcntl",
    "ctypes",
    "_ctypes",
    "resource",
    "onnxruntime",
    "onnx",
    "lxml",
    "ml_dtypes",
    "yaml",
    "jinja2",
    "click",
    "tqdm",
)
BLOCK = """
import json, sys
from pathlib import Path

MISSING, files = sys.argv[1].split(), [Path(path) for path in sys.argv[2:]]
assert not set(MISSING) & set(sys.modules)
sys.modules.update(dict.fromkeys(MISSING))
import xdlc
"""
INSPECT = """
from xdlc.container.aip_record import OWN_FLAVOUR, AipRecord, Engine, Section, write_aip
from xdlc.content.inspection import inspect
print(json.dumps([inspect(xdlc.load(path), path) for path in files], default=list))
"""
PAGES = """
from xdlc.api.viewing import view_content
print(json.dumps([view_content(files[0]), view_content(files[0], against=files[1])]))
"""
REFUSED = """
try:
    xdlc.load(files[0])
except xdlc.XdlcError as error:
    print(json.dumps([type(error).__name__, error.code]))
"""
VIEW = """
from xdlc.view.content import side
models = [xdlc.load(path) for path in files]
print(json.dumps([[side(model, statistics=with_them) for model in models] for with_them in (True, False)]))
"""
DIFF = """
from xdlc.diff import diff
models = [xdlc.load(path) for path in files[:2]]
print(json.dumps([diff(models[0], models[0]).as_dict(), diff(*models).as_dict()]))
"""


def answer(program, files, *more):
    """Return what a program prints without the modules of ``MISSING`` and more."""
    command = [sys.executable, "-c", BLOCK + program, " ".join([*MISSING, *more]), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def plain(value):
    return json.loads(json.dumps(value, default=list))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return DLCs of both formats, with each kind of values that a reader unpacks."""
    folder = tmp_path_factory.mktemp("dlcs")
    model = residual()
    put_cache(model, "sm8650")
    model.save(folder / "cached.dlc")
    (op,) = [op for op in model.main.ops if op.type == "FullyConnected"]
    array = np.ones((10, 192), np.int8)
    blocks = static("blocks", array, SFIXED8, BlockScaleOffset((1, 16), [0.5] * 120, [0] * 120))
    model.main.set_inputs(op, [op.inputs[0], model.main.add_tensor(blocks), op.inputs[2]])
    op.params["half"] = static("half", np.arange(4, dtype=np.float32).astype(BFLOAT16.numpy))
    op.params["flags"] = static("flags", np.array([[True, False], [False, True]]))
    model.save(folder / "blocks.dlc")
    sections = write_aip(AipRecord("1.2.0.0", "0.1.0.0", OWN_FLAVOUR, (Section(Engine.HNN, 0, 1, ()),)))
    write_30(folder / "snpe.dlc", records={"aip.metadata0": sections})
    return [folder / name for name in ("cached.dlc", "blocks.dlc", "snpe.dlc")]


@pytest.mark.parametrize("more", [(), ("numpy",)], ids=["numpy", "no numpy"])
def test_a_dlc_is_inspected(files, more):
    inspected = answer(INSPECT, files, *more)
    assert inspected == [plain(inspect(xdlc.load(path), path)) for path in files]
    half = {"half": [0.0, 1.0, 2.0, 3.0], "flags": [[True, False], [False, True]]}
    assert any(half.items() <= op["params"].items() for op in inspected[1]["graphs"][0]["ops"])


@pytest.mark.parametrize("more", [(), ("numpy",)], ids=["numpy", "no numpy"])
def test_another_format_is_refused_by_its_name(tmp_path, more):
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph(
        [node], "g", [value], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])]
    )
    onnx.save(helper.make_model(graph), tmp_path / "net.onnx")
    (tmp_path / "damaged.dlc").write_bytes(b"PK\3\4" + bytes(60))
    assert answer(REFUSED, [tmp_path / "net.onnx"], *more) == ["ContainerError", "XD601"]
    assert answer(REFUSED, [tmp_path / "damaged.dlc"], *more)[0] == "ContainerError"


@pytest.mark.parametrize("more", [(), ("numpy",)], ids=["numpy", "no numpy"])
def test_a_page_gets_its_content(files, more):
    full, bare = answer(VIEW, files, *more)
    assert bare == [plain(side(xdlc.load(path), statistics=False)) for path in files]
    macs = [overlay["key"] for overlay in full[0]["overlays"]]
    assert "macs" in macs
    notes = {stat.get("note") for stat in full[0]["graphs"][0]["stats"]}
    assert (None in notes) is not bool(more)


@pytest.mark.parametrize("more", [(), ("numpy",)], ids=["numpy", "no numpy"])
def test_pages_of_one_file_and_of_two(files, more):
    one, two = answer(PAGES, files, *more)
    assert (one["sides"][0]["file"], one["diff"]) == ("cached.dlc", None)
    assert len(two["sides"]) == 2
    assert {row[4] for row in two["diff"]["ops"]} > {"same"}


@pytest.mark.parametrize("more", [(), ("numpy",)], ids=["numpy", "no numpy"])
def test_dlcs_are_compared(files, more):
    equal, different = answer(DIFF, files, *more)
    assert equal["equal"]
    assert not different["equal"]
