"""Cache records of a model: graphs, reuse of existing caches, storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from xdlc import passes
from xdlc.container import cache_provenance
from xdlc.container.cache_entry import CachedTensor, read_entry
from xdlc.container.cache_provenance import CacheFacts, GraphFacts, content_hash
from xdlc.container.caches import WEIGHTS, Cache, add_cache, caches, changed_content, remove_caches
from xdlc.errors import BackendError, ContainerError, UsageError
from xdlc.ir import Model, ScaleOffset, Tensor
from xdlc.ir.fingerprint import fingerprint
from xdlc.options import spell
from xdlc.prepare.htp.targets import Target
from xdlc.runtime.htp import Compiled, CompileOptions
from xdlc.version import VERSION


@dataclass(frozen=True, slots=True)
class ExistingCache:
    """A cache for a SoC that is stored in the model.

    Attributes:
        cache: The cache; of several, the first.
        facts: What is known of its making; None if it was not made by xdlc.
    """

    cache: Cache
    facts: CacheFacts | None


def held_caches(model: Model) -> dict[str, ExistingCache]:
    """Return the stored cache of a model for each SoC, by SoC name.

    Raises:
        ContainerError: If the record with the facts about them is damaged.
    """
    facts = cache_provenance.read(model)
    found: dict[str, ExistingCache] = {}
    for cache in caches(model):
        found.setdefault(cache.soc, ExistingCache(cache, facts.get(cache.name)))
    return found


def check_foreign(existing: ExistingCache, model: Model, target: Target, where: str) -> None:
    """Refuse to replace another tool's cache that is not equivalent.

    Raises:
        UsageError: If it differs from what would be made, as far as its description shows.
    """
    if existing.facts is None and (
        existing.cache.problem or not _is_alike(existing.cache, model, target.options)
    ):
        raise UsageError(
            f"the model already has a cache for {target.name}, not from xdlc, which "
            + (existing.cache.problem or "has other options or belongs to another model"),
            where=f"{where}: {existing.cache.name}",
            fix=f"replace this cache with {spell('overwrite_cache_records', True)}",
        )


def difference(
    existing: ExistingCache, selection: Selection, options: CompileOptions, build: str
) -> str | None:
    """Return the difference that invalidates a cache, or None.

    Args:
        selection: What it should hold.
        options: How it should be compiled.
        build: Build of the vendor's library that would compile it.
    """
    if existing.facts is None:
        return None
    if existing.cache.problem:
        return existing.cache.problem
    if changed_content(existing.cache, existing.facts):
        return "has other bytes than the cache that was compiled"
    if existing.facts.graphs != selection.graphs:
        return "is for an older version of the graph"
    before, new = asdict(options_of_facts(existing.facts)), asdict(options)
    changed = [f"{key} {before[key]} instead of {new[key]}" for key in new if before[key] != new[key]]
    if changed:
        return f"was compiled with {', '.join(changed)}"
    made_by = (existing.cache.entry or {}).get("buildId")
    if made_by != build:
        return f"comes from build {made_by!r:.60} of the vendor's library, but build {build!r} is installed"
    return None


def options_of_facts(facts: CacheFacts) -> CompileOptions:
    """Return the options that a cache was compiled with."""
    return CompileOptions(**{key: getattr(facts, key) for key in asdict(CompileOptions())})


def check(target: Target, compiled: Compiled, where: str) -> None:
    """Refuse a compiler result that is not a valid cache for the SoC.

    Raises:
        BackendError: Naming what is wrong with it.
    """
    try:
        add_cache(Model(), target.name, compiled.data, compiled.entry, compiled.shared)
    except ContainerError as error:
        raise BackendError(
            f"the compiler's result {error.problem}", where=where, fix="prepare the DLC for this SoC again"
        ) from error


def store(model: Model, target: Target, compiled: Compiled, selection: Selection) -> None:
    """Store a cache and its facts in a model; replace those of the same SoC."""
    remove_caches(model, target.name)
    name = add_cache(model, target.name, compiled.data, compiled.entry, compiled.shared)
    weights = {name: data for name, data in compiled.shared.items() if name.startswith(WEIGHTS)}
    content = content_hash(compiled.data, weights)
    facts = CacheFacts(selection.graphs, **asdict(target.options), xdlc=VERSION, content=content)
    cache_provenance.write(model, {**cache_provenance.read(model), name: facts})


_Signature = tuple[object, ...]


def _is_alike(cache: Cache, model: Model, options: CompileOptions) -> bool:
    """Whether a cache has the options, inputs and outputs of the model."""
    graphs = {graph.name: graph for graph in read_entry(cache.entry).graphs}
    if set(graphs) != set(model.graphs):
        return False
    wanted = options.vtcm_mb, options.optimization_level, options.num_hvx_threads or 0, options.dlbc
    for name, own in model.graphs.items():
        held, adapted = graphs[name], own.clone()
        passes.run(adapted, passes.htp_query())
        if (held.vtcm_mb, held.optimization_level, held.hvx_threads, bool(held.dlbc)) != wanted:
            return False
        for listed, tensors in ((held.inputs, adapted.inputs), (held.outputs, adapted.outputs)):
            if list(map(_signature, listed)) != list(map(_own_signature, tensors)):
                return False
    return True


def _signature(tensor: CachedTensor) -> _Signature:
    return tensor.name, tensor.shape, tensor.scale, tensor.offset


def _own_signature(tensor: Tensor) -> _Signature:
    encoding = tensor.encoding if isinstance(tensor.encoding, ScaleOffset) else None
    return tensor.name, tensor.shape, encoding and encoding.scale, encoding and encoding.offset


@dataclass(frozen=True, slots=True)
class Selection:
    """Graphs to compile into a cache.

    Attributes:
        path: A DLC with these graphs.
        graphs: What each of them is of, by its name.
    """

    path: Path
    graphs: Mapping[str, GraphFacts]


def whole(model: Model, path: Path) -> Selection:
    """Return the selection of all graphs of a model, whose DLC is at ``path``."""
    facts = {name: GraphFacts(fingerprint(graph), name) for name, graph in model.graphs.items()}
    return Selection(path, facts)
