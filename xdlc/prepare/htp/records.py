"""The caches that a model holds already: which are kept, and how new ones go into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from xdlc import passes
from xdlc.container import Cache, add_cache, cache_facts, caches, remove_caches
from xdlc.container.cache_facts import CacheFacts
from xdlc.errors import BackendError, ContainerError, UsageError
from xdlc.ir import Model, ScaleOffset, Tensor
from xdlc.prepare.htp.selection import Selection
from xdlc.prepare.htp.targets import Target
from xdlc.runtime.htp import Compiled, CompileOptions
from xdlc.version import VERSION


@dataclass(frozen=True, slots=True)
class Held:
    """A cache that the model holds for a SoC.

    Attributes:
        cache: The cache; of several, the first.
        facts: What is known of its making; None if it was not made by xdlc.
    """

    cache: Cache
    facts: CacheFacts | None


def held_caches(model: Model) -> dict[str, Held]:
    """Return the cache that a model holds for each SoC, by the SoC's name.

    Raises:
        ContainerError: If the record with the facts about them is damaged.
    """
    facts = cache_facts.read(model)
    found: dict[str, Held] = {}
    for cache in caches(model):
        found.setdefault(cache.soc, Held(cache, facts.get(cache.name)))
    return found


def check_foreign(held: Held, model: Model, target: Target, where: str) -> None:
    """Refuse to replace a cache that xdlc did not make, unless it is as good as the one asked for.

    Raises:
        UsageError: If it differs from what would be made, as far as its description tells.
    """
    if held.facts is None and (held.cache.problem or not _is_alike(held.cache, model, target.options)):
        raise UsageError(
            f"there is a cache for {target.name} already, not made by xdlc, which "
            + (held.cache.problem or "was made with other options or for another model"),
            where=f"{where}: {held.cache.name}",
            fix="replace it with --overwrite_cache_records (overwrite_cache_records=True)",
        )


def difference(held: Held, selection: Selection, options: CompileOptions, build: str) -> str | None:
    """Return why a cache cannot be kept, or None if it is what would be made again.

    Args:
        held: The cache.
        selection: What it should hold.
        options: How it should be compiled.
        build: Build of the vendor's library that would compile it.
    """
    if held.facts is None:
        return None
    if held.cache.problem:
        return held.cache.problem
    if held.facts.graphs != selection.graphs:
        return "is of another graph: what was compiled has changed since"
    given, wanted = (_option_words(source) for source in (held.facts, options))
    changed = [f"{key} {given[key]} instead of {wanted[key]}" for key in wanted if given[key] != wanted[key]]
    if changed:
        return f"was compiled with {', '.join(changed)}"
    made_by = (held.cache.entry or {}).get("buildId")
    if made_by != build:
        return f"was compiled by build {made_by!r:.60} of the vendor's library, installed is {build!r}"
    return None


def _option_words(source: CacheFacts | CompileOptions) -> dict[str, Any]:
    return {key: getattr(source, key) for key in asdict(CompileOptions())}


def check(target: Target, compiled: Compiled, where: str) -> None:
    """Refuse what a compiler left behind that is no cache for a SoC.

    Raises:
        BackendError: Naming what is wrong with it.
    """
    try:
        add_cache(Model(), target.name, compiled.data, compiled.entry, compiled.shared)
    except ContainerError as error:
        raise BackendError(
            f"the compiler's result {error.problem}", where=where, fix="prepare this SoC again"
        ) from error


def store(model: Model, target: Target, compiled: Compiled, selection: Selection) -> None:
    """Put a cache and its facts into a model, in the place of those for its SoC."""
    remove_caches(model, target.name)
    name = add_cache(model, target.name, compiled.data, compiled.entry, compiled.shared)
    facts = CacheFacts(selection.graphs, **asdict(target.options), xdlc=VERSION)
    cache_facts.write(model, {**cache_facts.read(model), name: facts})


_Signature = tuple[object, ...]


def _is_alike(cache: Cache, model: Model, options: CompileOptions) -> bool:
    """Whether a cache's description has the options, and the inputs and outputs of the model's graphs."""
    graphs = {str(graph.get("graphName")): graph for graph in _objects(cache.entry or {}, "graphs")}
    if set(graphs) != set(model.graphs):
        return False
    for name, graph in graphs.items():
        own = model.graphs[name].clone()
        passes.run(own, passes.HTP_ASKED)
        facts = _object(graph, "graphBlobInfo")
        if (
            facts.get("vtcmSize") != options.vtcm_mb
            or facts.get("optimizationLevel") != options.optimization_level
            or facts.get("numHvxThreads") != (options.num_hvx_threads or 0)
            or bool(facts.get("htpDlbc")) != options.dlbc
        ):
            return False
        for listed, tensors in (("graphInputs", own.inputs), ("graphOutputs", own.outputs)):
            if [_signature(item) for item in _objects(graph, listed)] != [_own_signature(t) for t in tensors]:
                return False
    return True


def _object(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = holder.get(key)
    return value if isinstance(value, Mapping) else {}


def _objects(holder: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = holder.get(key)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _signature(item: Mapping[str, Any]) -> _Signature:
    shape = item.get("dimensions")
    step = _object(_object(item, "quantizeParams"), "scaleOffset")
    return (
        item.get("name"),
        tuple(shape) if isinstance(shape, list) else (),
        step.get("scale"),
        step.get("offset"),
    )


def _own_signature(tensor: Tensor) -> _Signature:
    encoding = tensor.encoding if isinstance(tensor.encoding, ScaleOffset) else None
    return tensor.name, tensor.shape, encoding and encoding.scale, encoding and encoding.offset
