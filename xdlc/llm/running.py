"""Engines of bundles: the vendor's runtime, the emulation of a SoC, the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import numpy as np

from xdlc.container import cache_provenance, load
from xdlc.container.cache_provenance import Verification
from xdlc.container.caches import caches
from xdlc.errors import BackendError, ModelError, UsageError
from xdlc.ir import Graph, MappedData, MappedFile, Model
from xdlc.ir.files import make_folder, replace_file
from xdlc.llm.bundle import EXTENSIONS, Bundle, Facts, extensions, genie_config, sampler
from xdlc.llm.generation import Engine, Runner, Sampling, answer
from xdlc.llm.genie_rules import check_genie
from xdlc.llm.layout import IDS, LOGITS
from xdlc.llm.tokenizer import Tokenizer
from xdlc.options import Notify, Step, spell
from xdlc.options.language_models import ENGINES
from xdlc.options.running import WorkerOptions
from xdlc.prepare.htp import prepare
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.htp.process import WorkerSession
from xdlc.targets import find_soc

EMULATION = "emulation"
"""Folder of a bundle with context binaries that load on this machine."""
Answer: TypeAlias = Callable[[Sequence[int], int], Iterator[int]]
"""Yields the tokens that follow those of a conversation, at most as many as it is given."""
_QUICK = 128 << 20
"""Bytes of context binaries whose check takes a minute at most."""
_CLOSE = 0.2
"""Share of the deviation of logits by which tokens that are nearly as likely differ."""


@contextmanager
def opened(
    bundle: Bundle,
    engine: str = "auto",
    *,
    soc: str | None = None,
    sampling: Sampling | None = None,
    notify: Notify = lambda text: None,
) -> Iterator[Answer]:
    """Yield the function that answers with a bundle on an engine.

    Args:
        engine: One of ``ENGINES``; ``auto``: the vendor's runtime if this machine has it, else the host.
        soc: SoC to emulate; default: the first one of the bundle.
        sampling: Choice of tokens; default: the likeliest.

    Raises:
        UsageError: If the engine or the SoC is not known.
        ConstraintError: If the vendor's runtime would compute wrong tokens.
        BackendError: If the engine is missing or fails.
    """
    from xdlc.llm import genie

    chosen, sampling = _chosen(bundle, engine), sampling or Sampling()
    if chosen != "genie":
        with runner_of(bundle, chosen, soc=soc, notify=notify) as runner:
            choose = sampling.chooser()

            def follow(prompt: Sequence[int], most: int) -> Iterator[int]:
                check_tokens(prompt, bundle)
                yield from answer(runner, prompt, most, choose, bundle.facts.eos)

            yield follow
        return
    _parts(bundle)
    with _loadable(bundle, soc, notify) as folder:
        config = genie_config(bundle.facts, [path.with_suffix(".bin").name for path in bundle.parts])
        dialog_config = config["dialog"]
        dialog_config["sampler"] = sampler(
            sampling.temperature, sampling.top_k or bundle.facts.vocab, sampling.top_p, sampling.seed
        )
        dialog_config["context"]["bos-token"] = -1  # prompts have it
        if bundle.tokenizer is None:
            raise UsageError(
                "the vendor's runtime cannot open a bundle without tokenizer.json",
                where=str(bundle.folder),
                fix=f"choose {spell('engine', 'host')}",
            )
        dialog_config["tokenizer"]["path"] = str(bundle.tokenizer.absolute())
        with genie.Dialog(folder, config) as dialog:

            def ask(prompt: Sequence[int], most: int) -> Iterator[int]:
                check_tokens(prompt, bundle)
                context, longest = bundle.facts.context, bundle.facts.longest_prompt
                if len(prompt) > longest:  # a dialog whose context was exceeded may fail from then on
                    raise UsageError(
                        f"the prompt has {len(prompt)} tokens, more than the {longest} that the vendor's "
                        "runtime supports",
                        fix="shorten the prompt, or build a bundle with a longer context",
                    )
                dialog.reset()
                for token in dialog.tokens(prompt, min(most, context - len(prompt))):
                    if token not in bundle.facts.eos:  # the runtime returns the one that ends an answer
                        yield token

            yield ask


def _chosen(bundle: Bundle, engine: str) -> str:
    from xdlc.llm import genie

    if engine not in ENGINES:
        raise UsageError(f"no engine {engine!r}", fix=f"use one of {', '.join(ENGINES)}")
    if engine != "auto":
        return engine
    has_binaries = bool(bundle.targets) and bundle.tokenizer is not None
    return "genie" if has_binaries and genie.is_installed() else "host"


@contextmanager
def runner_of(
    bundle: Bundle, engine: str = "host", *, soc: str | None = None, notify: Notify = lambda text: None
) -> Iterator[Runner]:
    """Yield the graphs of a bundle on the engine ``host``, ``float`` or ``htp``.

    Args:
        soc: SoC to emulate; default: the first one of the bundle.

    Raises:
        UsageError: If the engine or the SoC is not known.
        ConstraintError: If graphs do not fit together.
        BackendError: If the engine is missing or fails.
    """
    parts = _parts(bundle)
    rope = bundle.facts.rope
    if engine == "htp":
        with _emulated(bundle, soc, notify) as open_graph:
            yield Runner(parts, rope, open_graph)
        return
    if engine not in ("host", "float"):
        fix = "use host, float or htp"
        raise UsageError(f"the engine {engine!r} returns no logits", fix=fix)
    yield Runner(parts, rope, lambda part, graph: _on_host(parts[part], graph, quantized=engine == "host"))


def _parts(bundle: Bundle) -> list[Model]:
    """Return the parts of a whole decoder that the vendor's runtime accepts."""
    parts = [load(part) for part in bundle.parts]
    check_genie(parts)
    sides = {IDS: [graph.inputs for graph in parts[0].graphs.values()]}
    sides[LOGITS] = [graph.outputs for graph in parts[-1].graphs.values()]
    for name, graphs in sides.items():
        if not all(name in {tensor.name for tensor in tensors} for tensors in graphs):
            problem, fix = f"a DLC of the bundle has no tensor {name}", "build the bundle again"
            raise ModelError(problem, where=str(bundle.folder), fix=fix)
    return parts


def _on_host(part: Model, graph: Graph, *, quantized: bool) -> Engine:
    return CpuSession(part.with_main(graph.name), quantized=quantized)


@contextmanager
def _emulated(bundle: Bundle, soc: str | None, notify: Notify) -> Iterator[Callable[[int, Graph], Engine]]:
    """Yield the function that opens a graph of the context binaries."""
    with _loadable(bundle, soc, notify) as folder, ExitStack() as sessions:
        served: dict[int, WorkerSession] = {}

        def open_graph(part: int, graph: Graph) -> Engine:
            if part not in served:
                file = MappedFile(folder / bundle.parts[part].with_suffix(".bin").name)
                content = MappedData(file, 0, (file.size,), np.dtype(np.uint8))
                session = WorkerSession.of_cache(content, name=str(file.path))
                served[part] = sessions.enter_context(session)
            return _Emulated(served[part], graph.name)

        yield open_graph


class _Emulated:
    """A graph of a context binary."""

    def __init__(self, session: Any, graph: str) -> None:
        self._session, self._graph = session, graph

    def run(self, feeds: Any, *, native: bool = False) -> dict[str, Any]:
        results: dict[str, Any] = self._session.run(feeds, native=native, graph=self._graph)
        return results


@contextmanager
def _loadable(bundle: Bundle, soc: str | None, notify: Notify) -> Iterator[Path]:
    """Yield a folder with context binaries that load on this machine.

    Those whose graphs share weights load on a device only: the parts are compiled once more then, and kept.
    """
    if soc is None and not bundle.targets:
        problem = "the bundle has no context binaries"
        raise UsageError(problem, where=str(bundle.folder), fix=f"name a SoC: {spell('soc', 'sm8650')}")
    name = find_soc(soc).name if soc else next(iter(bundle.targets))
    target = bundle.targets.get(name)
    if target is not None and not target.is_shared:
        yield bundle.folder / name
        return
    folder = bundle.folder / EMULATION / name
    files = [folder / part.with_suffix(".bin").name for part in bundle.parts]
    if not all(map(is_newer, files, bundle.parts)):
        reason = (
            "none for this SoC"
            if target is None
            else "only binaries with shared weights, which only devices load"
        )
        notify(f"xdlc compiles context binaries for {name} for the emulation: the bundle has {reason}")
        make_folder(folder)
        for part, file in zip(bundle.parts, files, strict=True):
            if not is_newer(file, part):
                compile_part(part, name, file, verify=False, notify=notify)
        replace_file(folder / EXTENSIONS, extensions(name))
    yield folder


def is_newer(file: Path, source: Path) -> bool:
    """Return whether a file is there, written after another one."""
    return file.is_file() and file.stat().st_mtime_ns >= source.stat().st_mtime_ns


def compile_part(
    part: Path,
    soc: str,
    file: Path,
    *,
    verify: bool,
    notify: Notify,
    share: bool = False,
    **workers: Unpack[WorkerOptions],
) -> str | None:
    """Write the context binary of a part for a SoC; return what was verified, or None.

    Args:
        file: The file to write.
        verify: Whether to compare it with the host.
        share: Whether graphs have their common weights once, for a device alone.
        **workers: Who compiles and verifies.

    Raises:
        PrepareError: If the vendor's compiler refuses it, or it computes something else than the host.
    """
    options = {"verify": verify, "share_graph_weights": share}
    compiled = prepare(load(part), [soc], path=part, notify=notify, **options, **workers)
    (cache,) = (cache for cache in caches(compiled) if cache.soc == soc)
    if cache.data is None:
        raise ValueError(f"the cache for {soc} has no content")
    replace_file(file, cache.data.write_to)
    facts = cache_provenance.read(compiled).get(cache.name)
    verified = None if facts is None else facts.verified
    return None if verified is None else f"{part.stem} for {soc}: {_figures(verified)}"


def _figures(verified: Verification) -> str:
    """Return what was verified of a context binary, as text."""
    sqnr = [figure.sqnr for figure in verified.outputs.values() if figure.sqnr is not None]
    worst = f"; the worst output has {min(sqnr):.1f} dB" if sqnr else ""
    where = "in the compiling context" if verified.compiled else "loaded"
    return f"{verified.share:.0%} of the ops ran on the emulation, {where}, and agree with the host{worst}"


def agreement(bundle: Bundle, soc: str | None, *, count: int = 16) -> str:
    """Return a sentence on how often runtime and emulation choose the same tokens.

    The emulation runs the same context binaries in our own loop.  The prompt graph runs twice; of several
    contexts, the tokens exceed the shortest.

    Raises:
        UsageError: If no SoC is given, and the bundle has no binaries.
        BackendError: If the runtime chooses a token that is far less likely than another one.
    """
    facts = bundle.facts
    shortest = min(facts.shorter_contexts, default=0)
    length = shortest - count // 2 if shortest > count else facts.prompt_tokens * 3 // 2
    length = max(1, min(length, facts.context - facts.prompt_tokens - count))
    prompt = begun([(7919 * place + 17) % facts.vocab for place in range(length)], facts)[:length]
    endless = replace(bundle, facts=replace(facts, eos=()))
    with opened(endless, "genie", soc=soc) as ask:
        theirs = list(ask(prompt, count))
    if not theirs:
        raise BackendError(
            f"the vendor's runtime returns no tokens on {soc}",
            where=str(bundle.folder),
            fix="report this, or try other sizes of context and prompt",
        )
    with runner_of(bundle, "htp", soc=soc) as runner:
        logits = np.zeros((0, facts.vocab), np.float32)
        for rows in runner.steps([*prompt, *theirs[:-1]]):  # those of all tokens take gigabytes
            logits = np.concatenate([logits, rows])[-len(theirs) :]
    own = np.argmax(logits, axis=-1)
    equal = int(np.sum(own == theirs))
    gaps = [float(row.max() - row[token]) for row, token in zip(logits, theirs, strict=True)]
    if max(gaps, default=0.0) > _CLOSE * float(np.std(logits)):
        raise BackendError(
            f"the vendor's runtime and the emulation choose different tokens on {soc}: {equal} of "
            f"{len(theirs)} tokens are equal",
            where=str(bundle.folder),
            fix="report this, or try other sizes of context and prompt",
        )
    return f"{soc}: libGenie and the emulation choose the same token in {equal} of {len(theirs)} places"


def checks_of(bundle: Bundle, step: Step) -> tuple[str, ...]:
    """Return sentences on tokens that the vendor's runtime chooses with a bundle.

    Large binaries take minutes on the emulation: ``xdlc-llm check`` runs them.

    Raises:
        BackendError: As ``agreement`` does.
    """
    from xdlc.llm import genie

    checks = []
    for soc, target in bundle.targets.items():
        size = sum(path.stat().st_size for path in target.binaries)
        if genie.is_installed() and bundle.tokenizer and size <= _QUICK:
            step(f"generating on {soc}", 0, 0)
            checks.append(agreement(bundle, soc))
    return tuple(checks)


def begun(tokens: Sequence[int], facts: Facts) -> list[int]:
    """Return tokens of a text after the one that every text begins with."""
    front = [] if facts.bos is None or list(tokens[:1]) == [facts.bos] else [facts.bos]
    return [*front, *tokens]


def tokenizer_of(bundle: Bundle) -> Tokenizer:
    """Return the tokenizer of a bundle, with its chat template.

    Raises:
        UsageError: If the bundle has none.
        XdlcError: As ``Tokenizer`` does.
    """
    if bundle.tokenizer is None:
        raise UsageError(
            "the bundle has no tokenizer.json", where=str(bundle.folder), fix="pass token ids to xdlc llm run"
        )
    facts = bundle.facts
    special = {} if facts.bos is None else {"bos_token": facts.bos}
    special |= {"eos_token": facts.eos[0]} if facts.eos else {}
    return Tokenizer(bundle.tokenizer, facts.chat_template, special)


def conversation(
    messages: list[dict[str, str]], tokenizer: Tokenizer, facts: Facts, most: int, notify: Notify
) -> list[int]:
    """Return the tokens of a conversation that leaves space for an answer.

    The space is a quarter of the context at most.  Turns that do not fit are removed from the messages, the
    oldest first; a system message stays.

    Args:
        messages: Role and content of each message; those of users and answers alternate.
        most: Most tokens of the answer.
    """
    first = int(messages[0]["role"] == "system")
    longest = min(facts.longest_prompt, facts.context - min(most, facts.context // 4))
    count = 0
    while len(tokens := begun(tokenizer.conversation(messages), facts)) > longest and messages[first + 1 :]:
        del messages[first : first + 2]
        count += 1
    if count:
        notify(f"the context of {facts.context} tokens is full: xdlc drops the {count} oldest turn(s)")
    return tokens


def check_tokens(tokens: Sequence[int], bundle: Bundle) -> None:
    """Check token ids before an engine gets them.

    Raises:
        UsageError: If there are none, or one is not in the vocabulary.
    """
    if not tokens:
        raise UsageError("the prompt is empty", fix="write a prompt of at least one token")
    vocab = bundle.facts.vocab
    for token in tokens:
        if not 0 <= token < vocab:
            raise UsageError(f"token id {token} is not valid", fix=f"give token ids from 0 to {vocab - 1}")
