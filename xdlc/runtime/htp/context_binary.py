"""Context binaries: files with one cache and no model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from xdlc.container.cache_entry import CachedTensor, read_entry
from xdlc.container.caches import Cache, add_cache, caches, damage, file_data
from xdlc.errors import ContainerError, UsageError, XdlcError
from xdlc.ir import Graph, Model, Role, ScaleOffset, Tensor, TensorData
from xdlc.ir import dtype as dt
from xdlc.runtime.htp.process import HtpWorker
from xdlc.targets import find_soc
from xdlc.worker.temporary import temporary_file, temporary_files

_DESCRIBING = 60.0
"""Seconds that the vendor's library may take to describe a file."""


def read_binary(path: str | os.PathLike[str]) -> Model:
    """Return a model without graphs whose only record is a context binary.

    A child process with the vendor's library describes it.

    Raises:
        StorageError: If the file cannot be read.
        BackendError: If the library is missing, or cannot describe it.
        ContainerError: If it is damaged.
    """
    data, where = file_data(path), os.fspath(path)
    if problem := damage(data):
        raise ContainerError(problem, where=where, fix="get the file again")
    with HtpWorker(where) as worker, temporary_file() as file:
        with temporary_files():
            data.write_to(file)
            file.flush()
        entry = worker.query({"do": "describe"}, [file.fileno()], timeout=_DESCRIBING)["entry"]
    soc_id = read_entry(entry).soc_id
    try:
        soc = find_soc(soc_id or 0).name
    except XdlcError:
        soc = f"soc{soc_id}"
    model = Model()
    try:
        add_cache(model, soc, data, entry)
    except ContainerError as error:
        raise ContainerError(error.problem, where=where, fix="export the binary again") from error
    return model


def binary_of(model: Model, soc: str | None) -> TensorData:
    """Return the context binary of a model for a SoC; None denotes the only one.

    Raises:
        UsageError: If the model has none for the SoC, or several.
        ContainerError: If it is damaged, or its weights are in records of their own.
    """
    stored = caches(model)
    chosen = stored if soc is None else [cache for cache in stored if cache.soc == find_soc(soc).name]
    if len(chosen) != 1:
        listed = ", ".join(cache.soc for cache in stored) or "none"
        raise UsageError(
            f"the model holds {len(chosen)} caches{f' for {soc}' if soc else ''}; SoCs of caches: {listed}",
            fix="name a listed SoC, or prepare the model for the SoC",
        )
    (cache,) = chosen
    problem = cache.problem or ("the cache has its weights in other records" if cache.weights else None)
    if problem or cache.data is None:
        raise ContainerError(problem or "", where=cache.name, fix="prepare the model again")
    return cache.data


def described(model: Model, soc: str | None = None) -> tuple[Cache, dict[str, Graph]]:
    """Return a cache of a model without graphs, and its graphs by name.

    They have inputs and outputs, and no ops.

    Args:
        soc: Name of the SoC whose cache is preferred.

    Raises:
        UsageError: If the model holds no cache.
        ContainerError: If the description of the cache is damaged.
    """
    preferred = find_soc(soc).name if soc else None
    stored = sorted(caches(model), key=lambda cache: cache.soc != preferred)
    if not stored:
        raise UsageError("the model has no graph and no cache", fix="use a DLC with a graph")
    cache = stored[0]
    if cache.problem:
        raise ContainerError(cache.problem, where=cache.name, fix="export or prepare the model again")
    graphs: dict[str, Graph] = {}
    for listed in read_entry(cache.entry).graphs:
        graph = Graph(listed.name or "")
        for tensor in listed.inputs:
            graph.add_input(_tensor(tensor, Role.INPUT, cache.name))
        for tensor in listed.outputs:
            graph.add_output(_tensor(tensor, Role.OUTPUT, cache.name))
        graphs[graph.name] = graph
    if not graphs:
        raise ContainerError(
            "the cache describes no graph", where=cache.name, fix="export or prepare the model again"
        )
    return cache, graphs


def _tensor(listed: CachedTensor, role: Role, where: str) -> Tensor:
    dtype = dt.BY_NAME.get(listed.dtype or "")
    if not listed.name or listed.shape is None or dtype is None:
        raise ContainerError(
            f"the cache describes tensor {listed.name!r} without a shape, or with type {listed.dtype!r}",
            where=where,
            fix="export or prepare the model again",
        )
    encoding = None
    if listed.scale is not None and listed.offset is not None:
        encoding = ScaleOffset(listed.scale, listed.offset)
    return Tensor(listed.name, listed.shape, dtype, encoding, None, role)


def binary_names(source: Path, target: Path, socs: Sequence[str]) -> dict[str, Path]:
    """Return the path of the context binary of each SoC.

    Args:
        source: The DLC, after which files in a folder are named.
        target: A file ``.bin`` for one SoC, or a folder.

    Raises:
        UsageError: If several SoCs have one file.
    """
    if target.suffix != ".bin":
        return {soc: target / f"{source.stem}.{soc}.bin" for soc in socs}
    if len(set(socs)) != 1:
        raise UsageError(f"{len(socs)} SoCs need a file each", where=str(target), fix="name a folder")
    return {socs[0]: target}
