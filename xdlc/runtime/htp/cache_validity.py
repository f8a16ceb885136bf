"""Rules of a cache: whether it fits a device and the current model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdlc import passes
from xdlc.container import cache_provenance
from xdlc.container.cache_entry import CachedGraph, CachedTensor, CacheEntry
from xdlc.container.cache_provenance import CacheFacts, GraphFacts
from xdlc.container.caches import Cache, changed_content
from xdlc.errors import ContainerError, UsageError, nearest_names
from xdlc.ir import Graph, Model, Op, ScaleOffset, Tensor
from xdlc.ir.fingerprint import fingerprint
from xdlc.opdefs.control_flow import outer_graphs, reachable
from xdlc.runtime.htp.library import find_version
from xdlc.runtime.htp.partition_schedule import partition_graph
from xdlc.targets import Soc

_LONGEST_BUILD = 40
_SHOWN = 8
_ROUNDING = 2.0**-23
"""Relative error of a scale that was stored as a float32."""


def judge(
    entry: CacheEntry, made_for: Soc | None, device: Soc, sdk: tuple[int, ...] | None, *, strict: bool
) -> Iterator[Finding | Unchecked]:
    """Yield the rules that a cache breaks on a device, and rules that are unknown.

    Args:
        made_for: The SoC that it was compiled for, if known.
        sdk: Version of the device's SDK; None if not known.
        strict: Whether the cache has to use the device fully.
    """
    yield from _arch(entry, device, strict)
    yield from _vtcm(entry, made_for, device, strict)
    if strict and entry.soc_id != device.id:
        found = made_for.name if made_for else f"id {entry.soc_id}" if entry.soc_id is not None else "no id"
        yield Finding("soc", found, device.name)
    yield from _sdk(entry, sdk)


def _arch(entry: CacheEntry, device: Soc, strict: bool) -> Iterator[Finding]:
    name = device.capabilities.name
    accepted = name if strict else f"{name} or lower"
    if entry.arch is None:
        yield Finding("arch", "no architecture", accepted)
    elif entry.arch > device.arch or (strict and entry.arch != device.arch):
        yield Finding("arch", f"v{entry.arch}", accepted)


def _vtcm(
    entry: CacheEntry, made_for: Soc | None, device: Soc, strict: bool
) -> Iterator[Finding | Unchecked]:
    if device.vtcm_mb is None:
        yield Unchecked("vtcm", f"xdlc does not know the size of VTCM of {device.name}")
        return
    needed = entry.vtcm_mb
    accepted = f"{device.vtcm_mb} MB" + (f", all the memory of {device.name}" if strict else " or less")
    if needed == 0:
        needed = made_for.vtcm_mb if made_for else None
        if needed is None:
            yield Unchecked("vtcm", "the cache uses its SoC's whole VTCM, but xdlc does not know the size")
            return
    if needed is None:
        yield Finding("vtcm", "no size of VTCM", accepted)
    elif needed > device.vtcm_mb or (strict and needed != device.vtcm_mb):
        yield Finding("vtcm", f"{needed} MB", accepted)


def _sdk(entry: CacheEntry, sdk: tuple[int, ...] | None) -> Iterator[Finding | Unchecked]:
    if sdk is None:
        yield Unchecked(
            "sdk", "the SDK of the device is unknown: name the SDK, or install the vendor's package"
        )
        return
    made_with = find_version(entry.build)
    if made_with is None:
        stated = "none" if entry.build is None else repr(entry.build[:_LONGEST_BUILD])
        yield Unchecked("sdk", f"the cache states no SDK version (build {stated})")
    elif made_with[: len(sdk)] > sdk:
        yield Finding("sdk", ".".join(map(str, made_with)), f"{'.'.join(map(str, sdk))} or older")


RULES = {
    "record": "the record is whole and listed",
    "mode": "the mode allows stored records",
    "outputs": "the outputs requested are the record's outputs",
    "graph": "the model's graph equals the compiled graph",
    "arch": "the device's architecture is the record's or newer; strict: the same",
    "vtcm": "the device has the vector memory that the record needs; strict: no more",
    "soc": "strict: the record was compiled for the device's SoC",
    "sdk": "the device's SDK is the record's or newer",
    "fp16": "the device computes in the record's floating point",
}
"""Id of each rule, which stays as it is, and what it requires."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule.

    Attributes:
        rule: Its id, a key of ``RULES``.
        accepted: The values that would do.
    """

    rule: str
    found: str
    accepted: str

    def __str__(self) -> str:
        return f"{self.rule}: found {self.found}, accepted {self.accepted}"


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A rule that could not be judged.

    Attributes:
        rule: Its id, a key of ``RULES``.
        reason: What is not known.
    """

    rule: str
    reason: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.reason}"


class CacheValidity:
    """Facts that a model's caches are compared with, computed once if needed.

    Args:
        outputs: Names of the tensors that are requested; default: the outputs of the main graph.

    Raises:
        UsageError: If the main graph has no such tensor.
    """

    def __init__(self, model: Model, outputs: Iterable[str] | None) -> None:
        self._model = model
        self._main = next(iter(model.graphs.values()), None)
        self._requested = _requested(self._main, outputs)
        self._hashes: dict[tuple[str, tuple[str, ...] | None], str] = {}
        self._ports: dict[str, tuple[list[_IO], list[_IO]]] = {}
        self._damage: str | None = None
        self._facts: Mapping[str, CacheFacts] = {}
        try:
            self._facts = cache_provenance.read(model)
        except ContainerError as error:
            self._damage = f"the record of the caches {error.problem}"

    def judge(self, cache: Cache, entry: CacheEntry) -> Iterator[Finding | Unchecked]:
        """Yield violations of ``record``, ``outputs`` and ``graph``, and unknown rules."""
        facts = self._facts.get(cache.name)
        if facts is not None and (present := changed_content(cache, facts)):
            yield Finding("record", f"bytes with the hash {present}", f"the compiled bytes, {facts.content}")
        yield from self._outputs(entry, facts)
        if self._main is None:
            yield Unchecked("graph", "the file has no graph to compare with")
        elif facts is not None:
            yield from self._by_hash(entry, facts)
        else:
            found = list(self._by_ports(entry))
            yield from found
            if not any(isinstance(item, Finding) for item in found):
                reason = self._damage or "xdlc did not make the record, so its graph's hash is unknown"
                yield Unchecked("graph", f"{reason}; inputs and outputs match the model")

    def judge_precision(self, record: str, made_for: Soc | None, device: Soc) -> Iterator[Finding]:
        """Yield a finding if a cache computes in float and the device does not."""
        if self._main is None or device.fp16 or (made_for is not None and not made_for.fp16):
            return
        facts = self._facts.get(record)
        held = [GraphFacts("", self._main.name)] if facts is None else facts.graphs.values()
        count = 0
        for part in held:
            graph, names = self._model.graphs.get(part.source), None if part.ops is None else set(part.ops)
            ops = graph.ops if graph is not None else ()
            count += float_ops(op for op in ops if names is None or op.name in names)
        if count:
            yield Finding("fp16", f"{count} op(s) in floating point", f"none: {device.name} has no FP16")

    def _outputs(self, entry: CacheEntry, facts: CacheFacts | None) -> Iterator[Finding]:
        if self._requested is None:
            return
        outputs: Sequence[str | None]
        if facts is not None and any(graph.ops is not None for graph in facts.graphs.values()):
            outputs = [tensor.name for tensor in self._main.outputs] if self._main else []
        else:
            graph = _graph_of(entry, facts, self._main)
            if graph is None:
                return  # reported by the rule of the graph
            outputs = [tensor.name for tensor in graph.outputs]
        if set(outputs) != set(self._requested):
            yield Finding("outputs", _listed(outputs), _listed(self._requested))

    def _by_hash(self, entry: CacheEntry, facts: CacheFacts) -> Iterator[Finding | Unchecked]:
        cached = {graph.name for graph in entry.graphs}
        for name, graph in facts.graphs.items():
            if name not in cached:
                yield Finding("graph", f"no graph {_short(name)}", "all compiled graphs")
                continue
            source = self._model.graphs.get(graph.source)
            if source is None:
                yield Finding(
                    "graph", f"a cache of graph {_short(graph.source)}", f"a cache of {self._known()}"
                )
                continue
            now = self._hash(source, graph)
            if now != graph.fingerprint:
                yield Finding(
                    "graph",
                    f"hash {graph.fingerprint} of graph {_short(name)}",
                    now or "only ops of the model",
                )
        yield from self._missing({graph.source for graph in facts.graphs.values()})

    def _missing(self, held: Collection[str | None]) -> Iterator[Finding | Unchecked]:
        """Yield the graphs that a cache lacks; the main graph is required."""
        for graph in outer_graphs(self._model):
            if any(each.name in held for each in reachable(graph, self._model.graphs)):
                continue
            if graph is self._main:
                yield Finding("graph", f"no graph {_short(graph.name)}", "a cache with this graph")
            else:
                yield Unchecked("graph", f"the cache has no graph {_short(graph.name)}")

    def _known(self) -> str:
        return _listed(list(self._model.graphs))

    def _hash(self, source: Graph, facts: GraphFacts) -> str | None:
        """Return the present hash of a compiled graph; None if its ops no longer exist."""
        key = (facts.source, facts.ops)
        if key not in self._hashes:
            try:
                partition = source if facts.ops is None else partition_graph(source, facts.ops, "partition")
            except ContainerError:
                return None
            self._hashes[key] = fingerprint(partition)
        return self._hashes[key]

    def _by_ports(self, entry: CacheEntry) -> Iterator[Finding | Unchecked]:
        by_name = {graph.name: graph for graph in entry.graphs}
        yield from self._missing(by_name.keys())
        for name, graph in self._model.graphs.items():
            cached = by_name.get(name)
            if cached is None:
                continue
            if name not in self._ports:
                self._ports[name] = _ports(graph)
            for kind, held, ios in zip(
                ("input", "output"), (cached.inputs, cached.outputs), self._ports[name], strict=True
            ):
                yield from _compared(kind, name, held, ios)


_IO = tuple[CachedTensor, CachedTensor]
"""An input or output as the model has it, and as HTP has it."""


def _ports(graph: Graph) -> tuple[list[_IO], list[_IO]]:
    adapted = graph.clone()
    passes.run(adapted, passes.htp_query())
    return (
        [
            (_described(one), _described(other))
            for one, other in zip(graph.inputs, adapted.inputs, strict=True)
        ],
        [
            (_described(one), _described(other))
            for one, other in zip(graph.outputs, adapted.outputs, strict=True)
        ],
    )


def _described(tensor: Tensor) -> CachedTensor:
    encoding = tensor.encoding if isinstance(tensor.encoding, ScaleOffset) else None
    scale, offset = (encoding.scale, encoding.offset) if encoding else (None, None)
    return CachedTensor(tensor.name, tensor.shape, tensor.dtype.name, scale, offset)


def _compared(kind: str, graph: str, cached: Sequence[CachedTensor], ios: Sequence[_IO]) -> Iterator[Finding]:
    """Yield the first difference of a cache and a model, outputs in any order."""
    forms_of = {io[0].name: io for io in ios}
    if len(cached) != len(ios):
        yield Finding(
            "graph",
            f"{len(cached)} {kind}(s) of graph {_short(graph)}: {_listed([form.name for form in cached])}",
            f"{len(ios)}: {_listed(list(forms_of))}",
        )
        return
    for tensor in cached:
        forms = forms_of.get(tensor.name)
        if forms is None:
            yield Finding("graph", f"{kind} {_short(tensor.name)}", _listed(list(forms_of)))
            return
        if not any(_is_same(tensor, io) for io in forms):
            yield Finding("graph", f"{kind} {_words(tensor)}", _words(forms[0]))
            return


def _is_same(cached: CachedTensor, form: CachedTensor) -> bool:
    if (cached.name, cached.shape, cached.dtype, cached.offset) != (
        form.name,
        form.shape,
        form.dtype,
        form.offset,
    ):
        return False
    if cached.scale is None or form.scale is None:
        return cached.scale is form.scale
    return abs(cached.scale - form.scale) <= _ROUNDING * abs(form.scale)


def _words(tensor: CachedTensor) -> str:
    dims = "x".join(map(str, tensor.shape or ())) or ("scalar" if tensor.shape == () else "of no shape")
    step = "" if tensor.scale is None else f" scale {tensor.scale:.7g} offset {tensor.offset}"
    return f"{_short(tensor.name)} {tensor.dtype} {dims}{step}"


def _graph_of(entry: CacheEntry, facts: CacheFacts | None, main: Graph | None) -> CachedGraph | None:
    """Return the cached main graph; of a file without graphs, the first one."""
    if main is None:
        return next(iter(entry.graphs), None)
    names = {main.name} if facts is None else {n for n, g in facts.graphs.items() if g.source == main.name}
    return next((graph for graph in entry.graphs if graph.name in names), None)


def _requested(main: Graph | None, outputs: Iterable[str] | None) -> tuple[str, ...] | None:
    if outputs is None:
        return tuple(tensor.name for tensor in main.outputs) if main else None
    asked = tuple(dict.fromkeys(outputs))
    for name in asked:
        if main is not None and name not in main.tensors:
            raise UsageError(
                f"graph {main.name!r} has no tensor {name!r}", fix=nearest_names(name, main.tensors) or None
            )
    return asked


def float_ops(ops: Iterable[Op]) -> int:
    """Return the number of ops that compute with floats, without conversions."""
    return sum(_is_float(op.outputs) and _is_float(op.inputs) for op in ops)


def _is_float(tensors: Sequence[Tensor | None]) -> bool:
    return any(tensor is not None and tensor.dtype.is_float and not tensor.is_static for tensor in tensors)


def _short(name: str | None) -> str:
    return repr(name if name is None or len(name) <= 60 else name[:57] + "...")


def _listed(names: Sequence[str | None]) -> str:
    """Return sorted names as text, shortened if there are many."""
    found = sorted(map(_short, names))
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more if found else "none"
