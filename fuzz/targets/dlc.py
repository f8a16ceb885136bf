"""Containers of all formats with their records, and models as text."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from fuzz.targets import Files, Target
from fuzz.targets._steps import built, keep, run
from tests.cache_models import put_cache
from tests.container.test_old_formats import graph_40, large, params_40, prefixed, write, write_30
from tests.container.udo.test_kernel_records import KERNEL
from tests.control_flow_models import if_model, loop_model
from tests.custom_ops import scale_graph
from tests.opdefs.user_configs import BLEND
from tests.section_models import on_cpu, residual
from xdlc import ir
from xdlc.container import udo
from xdlc.container.aip_record import parse_aip, write_aip
from xdlc.container.caches import caches
from xdlc.opdefs import parse_collection
from xdlc.schema._generated import dlc4_params


def with_records() -> xdlc.Model:
    """Return a model with caches, definitions and a kernel."""
    model = scale_graph()
    put_cache(model, "sm8550")
    put_cache(model, "sm8650", noted=False)
    collection = parse_collection(BLEND.encode(), "blend.xml")
    udo.add_definitions(model, {collection.package: collection})
    udo.add_kernel(model, "Pkg", "Scale", ["s"], KERNEL)
    return model


@cache
def models() -> tuple[xdlc.Model, ...]:
    """Return small models: float, quantized, with control flow, with records."""
    quantized = residual()
    return with_records(), if_model(), loop_model(), on_cpu(quantized, [3]), quantized


@cache
def files() -> tuple[Files, ...]:
    """Return containers of all formats."""
    found = [
        built(
            lambda folder, model=model, version=version: xdlc.save(model, folder / "m.dlc", version=version)
        )
        for version in ("4.1", "4.0")
        for model in models()
    ]
    found.append(built(lambda folder: write_30(folder / "m.dlc")))
    numbers = np.arange(3, dtype="<f4").tobytes()
    for params in (
        params_40(dlc4_params.Elements("w", numbers)),
        large(params_40(dlc4_params.Elements("w", buffer=0)), numbers),
    ):
        entries = {"model": graph_40(), "model.params": prefixed(4, 0, params)}
        found.append(built(lambda folder, entries=entries: write(folder / "m.dlc", entries)))
    return tuple(found)


def use(folder: Path, rng: random.Random) -> str:
    """Read a container and use it in a few ways."""
    model, word = xdlc.load(folder / "m.dlc"), "loaded"
    actions: dict[str, Any] = {
        "saved": lambda: keep(model, folder / "out.dlc", rng),
        "onnx": lambda: xdlc.to_onnx(
            model, folder / "m.onnx", encodings=rng.choice(("qdq", "aimet", "none"))
        ),
        "ran": lambda: run(model, rng) if model.graphs else None,
        "encodings": lambda: xdlc.export_encodings(model, folder / "m.json", rng.choice(("0.6.1", "2.0.0"))),
        "text": lambda: ir.to_text(model, data="inline"),
        "verdicts": lambda: xdlc.verdicts(model, "sm8450"),
        "caches": lambda: [each.problem for each in caches(model)],
        "definitions": lambda: (udo.definitions(model), udo.kernels(model, {})),
        "hta": lambda: xdlc.prepare_hta(model) if model.graphs else None,
    }
    for action in rng.sample(sorted(actions), 3):
        with contextlib.suppress(xdlc.XdlcError):
            actions[action]()
            word = action
    return word


def read_caches(folder: Path, rng: random.Random) -> str:
    """Put bytes into a model as a cache, and list its caches."""
    model = models()[0].clone()
    name = rng.choice(("htp.cache.sm8550.0", "htp.cache.sm8650.0", "xdlc.caches", "htp.cache.sm8450.7"))
    model.records[name] = ir.raw_data((folder / "record").read_bytes())
    found = caches(model)
    return "sound" if not any(each.problem for each in found) else "problem"


def read_aip(folder: Path, rng: random.Random) -> str:
    """Read the record of sections, and write it again."""
    found = parse_aip((folder / "record").read_bytes(), where="record")
    assert parse_aip(write_aip(found), where="record") == found
    return "read"


def records(prefix: str) -> Iterator[Files]:
    """Iterate over the records of the models whose names have a prefix."""
    for model in models():
        for name, held in model.records.items():
            if name.startswith(prefix):
                yield {"record": bytes(held.content())}


def read_text(folder: Path, rng: random.Random) -> str:
    """Read a model as text, print it and save it."""
    model = ir.parse((folder / "m.txt").read_bytes().decode("utf-8", "surrogatepass"))
    ir.to_text(model, data="inline")
    xdlc.save(model, folder / "m.dlc")
    return "read"


def texts() -> Iterator[Files]:
    """Iterate over models as text."""
    for model in models():
        yield {"m.txt": ir.to_text(model, data="inline").encode()}


TARGETS = (
    Target("dlc", files, use),
    Target("caches", lambda: list(records("htp.cache")) + list(records("xdlc.")), read_caches),
    Target("aip", lambda: list(records("aip.")) + list(records("xdlc.")), read_aip),
    Target("text", texts, read_text),
)
