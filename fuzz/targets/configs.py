"""Files beside a model: definitions, encodings, requests, lists, samples."""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from fuzz.targets import Files, Target
from fuzz.targets._steps import built
from tests.boundary.test_files import CONFIG, CUSTOM
from tests.opdefs.user_configs import BLEND
from tests.runtime.test_vendor_errors import LINES
from tests.runtime.udo.kernel_meta import call
from tests.support.custom_ops import scale_graph
from tests.support.section_models import Net
from tests.udo.config.test_broken_rules import GOOD
from xdlc.boundary import files
from xdlc.opdefs.source_match import Kernel
from xdlc.quant.overrides import read_overrides
from xdlc.quant.samples import FileSamples
from xdlc.runtime.input_list import read_input_list, read_names
from xdlc.runtime.udo.kernel_files import kernel_files, read_calls
from xdlc.udo.config import read_config
from xdlc.udo.config.convert import convert


@cache
def model() -> tuple[xdlc.Model, xdlc.Model]:
    """Return a small model, float and quantized."""
    net = Net()
    net.graph.add_output(net.conv(net.input(1, 4, 4, 3), 2))
    made = xdlc.Model({net.graph.name: net.graph})
    return made, xdlc.quantize(made, [{"x": np.ones((1, 4, 4, 3), np.float32)}])


def define(folder: Path, rng: random.Random) -> str:
    """Read definitions, and convert them to the other form."""
    (path,) = folder.iterdir()
    read_config(path)
    convert([path], folder / rng.choice(("out.xml", "out.json")))
    return "converted"


def override(folder: Path, rng: random.Random) -> str:
    """Read encodings, and sometimes quantize with them."""
    found = read_overrides(folder / "m.encodings")
    if rng.random() < 0.7:
        return f"read {min(len(found.entries), 3)}"
    x = np.ones((1, 4, 4, 3), np.float32)
    path, missing = folder / "m.encodings", rng.choice(("error", "warn"))
    made = xdlc.quantize(model()[0], [{"x": x}], quantization_overrides=path, override_missing=missing)
    assert all(np.isfinite(array).all() for array in xdlc.run(made, {"x": x}).values())
    return "quantized"


def _export(version: str, folder: Path) -> None:
    xdlc.export_encodings(model()[1], folder / "m.encodings", version)


def encodings() -> Iterator[Files]:
    """Iterate over encodings of all versions."""
    for version in ("0.6.1", "1.0.0", "2.0.0"):
        yield built(partial(_export, version))
    rows = {"activation_encodings": {"x": [{"bitwidth": 8, "min": -1.0, "max": 1.0}]}, "param_encodings": {}}
    yield {"m.encodings": json.dumps(rows).encode()}


def request(folder: Path, rng: random.Random) -> str:
    """Read requests for inputs and outputs."""
    return str(len(files.read(folder / "io.yaml", has_sections=rng.random() < 0.5).requests))


def listed(folder: Path, rng: random.Random) -> str:
    """Read an input list; names of files are relative to the folder of the case."""
    path = folder / "list.txt"
    with contextlib.chdir(folder), contextlib.suppress(xdlc.XdlcError):
        read_names(path)
    with contextlib.chdir(folder):
        found = read_input_list(path, model()[0].main, native=rng.random() < 0.2)
    return f"read {min(len(found), 3)}"


def lists() -> Iterator[Files]:
    """Iterate over lists with the files that they name."""
    x = np.ones((1, 4, 4, 3), np.float32)
    held = io.BytesIO()
    np.save(held, x)
    made = {"x.raw": x.tobytes(), "x.npy": held.getvalue()}
    for text in ("x:=x.raw\nx:=x.npy\n", "# conv\n% t0\nx.raw\nx.npy\n", 'x:="x.raw" \n'):
        yield {"list.txt": text.encode(), **made}


def sample(folder: Path, rng: random.Random) -> str:
    """Read the samples of a file."""
    (path,) = folder.iterdir()
    return f"read {min(sum(1 for _ in FileSamples(path, model()[0].main)), 3)}"


def _save_array(x: Any, folder: Path) -> None:
    np.save(folder / "s.npy", x)


def _save_archive(save: Callable[..., None], x: Any, folder: Path) -> None:
    save(folder / "s.npz", x=x)


def samples() -> Iterator[Files]:
    """Iterate over files of numpy arrays."""
    for dtype in ("<f4", "<f8", ">f4", "|u1"):
        x = np.ones((2, 4, 4, 3), dtype)
        yield built(partial(_save_array, x))
        for save in (np.savez, np.savez_compressed):
            yield built(partial(_save_archive, save, x))
    yield built(partial(_save_array, np.asfortranarray(np.ones((2, 4, 4, 3), "<f4"))))


def kernel(folder: Path, rng: random.Random) -> str:
    """Read the calls of a compiled kernel, and compare them with an op."""
    calls = read_calls(folder / "scale.json")
    (op,) = scale_graph().main.ops
    fitting = [call for call in calls if call.names(op) and call.fits(op)]
    return "fits" if fitting else f"read {min(len(calls), 3)}"


def kernels() -> Iterator[Files]:
    """Iterate over kernels with scalars, and with arrays, as arguments."""
    model = scale_graph()
    (op,) = model.main.ops
    for values in ((1, 0.5, "a"), (np.ones((2, 3), np.float32), np.int32(3), "a")):
        argument = Kernel("scale", "scale_run", "ifs", values, "linux-x86_64", "gcc 12", b"\x7fELF...")
        files = kernel_files([call(model, argument, op.name)])
        yield {Path(path).name: content for path, content in files.items()}


def explain(folder: Path, rng: random.Random) -> str:
    """Explain a log, and a line of it."""
    path = folder / "device.log"
    lines = path.read_bytes().decode("utf-8", "replace").splitlines() or [""]
    with contextlib.suppress(xdlc.XdlcError):
        xdlc.explain(rng.choice(lines))
    return f"found {min(len(xdlc.explain(path)), 3)}"


TARGETS = (
    Target("xml", lambda: [{"ops.xml": BLEND.encode()}], define),
    Target("json", lambda: [{"ops.json": GOOD.encode()}], define),
    Target("encodings", encodings, override),
    Target("kernels", kernels, kernel, fixed=("scale.so",)),
    Target("yaml", lambda: [{"io.yaml": text.encode()} for text in (CUSTOM, CONFIG)], request),
    Target("lists", lists, listed),
    Target("npz", samples, sample),
    Target("explain", lambda: [{"device.log": "\n".join(LINES).encode()}], explain),
)
