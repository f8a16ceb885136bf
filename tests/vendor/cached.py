"""Caches of a model, expected and as the vendor's reader and emulation have them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xdlc.ir import Graph, Model, ScaleOffset, Tensor
from xdlc.runtime.htp.process import WorkerSession
from xdlc.targets import find_soc

SEVEN = ("SM8350", "SM8450", "SM8550", "SM8650", "SM8750", "SA8295", "QCS6490")
VTCM_MB = dict(zip(SEVEN, (4, 8, 8, 8, 8, 8, 2), strict=True))


def port(tensor: Tensor) -> tuple[Any, ...]:
    """Return what the vendor's reader should say of an input or output."""
    encoding = tensor.encoding
    step = (np.float32(encoding.scale), encoding.offset) if isinstance(encoding, ScaleOffset) else ()
    return tensor.name, tensor.dtype.name, tensor.shape, *step


def _listed(found: Mapping[str, Any]) -> tuple[Any, ...]:
    encoding = found["encoding"]
    step = (np.float32(encoding["scale"]), encoding["offset"]) if encoding else ()
    return found["name"], found["dtype"], tuple(found["dims"]), *step


def misfits(answer: Mapping[str, Any], model: Model, socs: Sequence[str] = SEVEN) -> list[str]:
    """Return where the vendor's caches are not one for each SoC, VTCM and I/O.

    Args:
        answer: Of ``vendor_check.py caches``.
        model: The model that was prepared, whose ports HTP takes as they are.
        socs: The SoCs it was prepared for.
    """
    expected = {
        f"htp.cache.{soc.lower()}.0": (
            find_soc(soc).id,
            {
                name: (VTCM_MB[soc] << 20, list(map(port, graph.inputs)), list(map(port, graph.outputs)))
                for name, graph in model.graphs.items()
            },
        )
        for soc in socs
    }
    listed = {
        cache["record"]: (
            cache["soc_id"],
            {
                graph["name"]: (
                    graph["vtcm_bytes"],
                    list(map(_listed, graph["inputs"])),
                    list(map(_listed, graph["outputs"])),
                )
                for graph in cache["graphs"]
            },
        )
        for cache in answer["caches"]
    }
    problems = [] if answer["ok"] else [f"the vendor's reader says {answer['reason']}"]
    problems += [f"{name} is listed but not stored" for name in answer["unlisted_entries"]]
    for record in sorted(expected.keys() | listed.keys()):
        if expected.get(record) != listed.get(record):
            problems.append(f"{record}: expected {expected.get(record)}, listed is {listed.get(record)}")
    return problems


def stored(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Return random stored values over all of the range of a graph's inputs."""
    rng = np.random.default_rng(seed)
    return {
        tensor.name: rng.integers(*tensor.dtype.limits, tensor.shape, endpoint=True).astype(
            tensor.dtype.numpy
        )
        for tensor in graph.inputs
    }


def differing(path: Path, model: Model, soc: str, inputs: int) -> Iterator[str]:
    """Yield the outputs in which a stored cache and the composed graph differ.

    Args:
        path: The prepared DLC, which is composed.
        model: What it holds.
        soc: The SoC to emulate.
        inputs: How many random inputs to try.
    """
    cache = model.records[f"htp.cache.{soc.lower()}.0"]
    with WorkerSession.of_cache(cache, soc=soc) as from_cache:
        for name, graph in model.graphs.items():
            with WorkerSession.of_model(path, soc, graph=name) as composed:
                for seed in range(inputs):
                    feeds = stored(graph, seed)
                    expected = composed.run(feeds, native=True)
                    found = from_cache.run(feeds, native=True, graph=name)
                    for key in expected.keys() | found.keys():
                        if not np.array_equal(expected[key], found[key]):
                            yield f"{soc}: graph {name}: {key}: input {seed}"
