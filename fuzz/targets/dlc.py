"""Containers of all formats with their records, and models as text."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from fuzz.targets import Files, Target
from fuzz.targets._steps import built, keep, run
from fuzz.targets._sweep import SHAPES, array, value, words
from tests.container import test_old_formats as old
from tests.converter.snpe.test_layers import Net, window
from tests.hostile.test_host_only import host_ops
from tests.opdefs.user_configs import BLEND
from tests.support.cache_models import put_cache
from tests.support.control_flow_models import if_model, loop_model
from tests.support.custom_ops import scale_graph
from tests.support.htp_models import prepared_cnn
from tests.support.section_models import on_cpu, residual
from xdlc import ir
from xdlc.api import executable
from xdlc.container import udo
from xdlc.container.aip_record import parse_aip, write_aip
from xdlc.container.caches import caches
from xdlc.converter.snpe.registry import load_all
from xdlc.opdefs.xml_reader import parse_collection
from xdlc.runtime.htp.context_binary import described
from xdlc.schema._generated.dlc4_params import Elements


@cache
def models() -> tuple[xdlc.Model, ...]:
    """Return small models with caches, definitions, control flow, host ops or sections."""
    first = scale_graph()
    put_cache(first, "sm8550")
    put_cache(first, "sm8650", noted=False)
    collection = parse_collection(BLEND.encode(), "blend.xml")
    udo.add_definitions(first, {collection.package: collection})
    on_host = xdlc.convert(host_ops(), unroll_loops=0)
    return first, if_model(), loop_model(), on_host, on_cpu(residual(), [3]), residual()


def files() -> Iterator[Files]:
    """Iterate over containers of all formats."""
    for version in ("4.1", "4.0"):
        for model in models():
            yield built(partial(_save, model, version))
    yield built(lambda folder: old.write_30(folder / "m.dlc"))
    numbers = np.arange(3, dtype="<f4").tobytes()
    inline = old.params_40(Elements("w", numbers))
    for params in (inline, old.large(old.params_40(Elements("w", buffer=0)), numbers)):
        entries = {"model": old.graph_40(), "model.params": old.prefixed(4, 0, params)}
        yield built(partial(_write, entries))


def _save(model: xdlc.Model, version: str, folder: Path) -> None:
    xdlc.save(model, folder / "m.dlc", version=version)


def _write(entries: Files, folder: Path) -> None:
    old.write(folder / "m.dlc", entries)


def use(folder: Path, rng: random.Random) -> str:
    """Read a container and use it in a few ways."""
    model, word = xdlc.load(folder / "m.dlc"), "loaded"
    actions: dict[str, Any] = {
        "saved": lambda: keep(model, folder / "out.dlc", rng),
        "onnx": lambda: xdlc.to_onnx(
            model, folder / "m.onnx", encodings=rng.choice(("qdq", "aimet", "none"))
        ),
        "ran": lambda: model.graphs and run(model, rng),
        "encodings": lambda: xdlc.export_encodings(model, folder / "m.json", rng.choice(("0.6.1", "2.0.0"))),
        "text": lambda: ir.to_text(model, data="inline"),
        "verdicts": lambda: xdlc.verdicts(model, "sm8450"),
        "caches": lambda: [each.problem for each in caches(model)],
        "definitions": lambda: udo.definitions(model),
        "described": lambda: described(model),
        "linked": lambda: keep(xdlc.link([model, model], ["a", "b"]), folder / "out.dlc", rng),
        "hta": lambda: model.graphs and xdlc.prepare_hta(model),
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
    return "problem" if any(each.problem for each in caches(model)) else "sound"


def binaries() -> list[Files]:
    """Return a context binary of the vendor's compiler."""
    return [{"m.bin": xdlc.export_binary(prepared_cnn("sm8650"))}]


def read_binary(folder: Path, _: random.Random) -> str:
    """Read a context binary, which a child describes, and list its graphs."""
    graphs = described(xdlc.load(folder / "m.bin"))[1]
    return "described" if graphs else "empty"


def read_aip(folder: Path, _: random.Random) -> str:
    """Read the record of sections, and write it again."""
    found = parse_aip((folder / "record").read_bytes(), where="record")
    assert parse_aip(write_aip(found), where="record") == found
    return "read"


def read_text(folder: Path, _: random.Random) -> str:
    """Read a model as text, print it and save it."""
    model = ir.parse((folder / "m.txt").read_bytes().decode("utf-8", "surrogatepass"))
    ir.to_text(model, data="inline")
    xdlc.save(model, folder / "m.dlc")
    return "read"


def records(*prefixes: str) -> list[Files]:
    """Return the records of the models whose names have a prefix."""
    every = [item for model in models() for item in model.records.items()]
    return [{"record": bytes(held.content())} for name, held in every if name.startswith(prefixes)]


def layers(rng: random.Random) -> Files:
    """Return a net of a few layers: attributes and weights of any number and type."""
    net = Net(*rng.choice(SHAPES[1:]))
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind, function = rng.choice(sorted(load_all().items()))
        known = words(function.__module__)
        params = {rng.choice(known): value(rng, known) for _ in range(rng.choice((0, 2, 5, 9)))}
        params |= window() if rng.random() < 0.3 else {}
        weights: dict[str, Any] = {
            name: array(rng, rng.choice(SHAPES[1:]), "float32")
            for name in rng.choice(((), ("weights", "bias")))
        }
        with contextlib.suppress(TypeError, ValueError, OverflowError, IndexError):  # values without a form
            net.layer(kind, [rng.choice(SHAPES[1:]) for _ in range(rng.choice((1, 1, 2)))], params, **weights)
    return {"m.txt": ir.to_text(net.model(), data="inline").encode()}


def translate(folder: Path, rng: random.Random) -> str:
    """Translate the layers, and save what they become."""
    model = ir.parse((folder / "m.txt").read_bytes().decode("utf-8", "surrogatepass"))
    made = executable(model)
    return keep(made, folder / "m.dlc", rng) if made.main.ops else "translated"


TARGETS = (
    Target("dlc", files, use),
    Target("snpe", list, translate, generate=layers),
    Target("caches", lambda: records("htp.cache", "xdlc."), read_caches),
    Target("context_binary", binaries, read_binary, engine=("onnxruntime_qnn",)),
    Target("aip", lambda: records("aip.", "xdlc."), read_aip),
    Target(
        "text", lambda: [{"m.txt": ir.to_text(each, data="inline").encode()} for each in models()], read_text
    ),
)
