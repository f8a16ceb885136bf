"""Runtime ``htp``: the vendor's emulation of a SoC."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdlc.api.models import executable, load
from xdlc.api.runtimes import SHARED, Runtime, RuntimeState, Trial, add_runtime, tried, version_of
from xdlc.errors import ContainerError, UsageError, XdlcError, raise_all
from xdlc.ir import Model
from xdlc.ir.files import kept_apart, make_folder
from xdlc.options import Notify, spell
from xdlc.worker.limits import AT_A_TIME

if TYPE_CHECKING:
    from xdlc.runtime.htp.session import BinarySession, HtpSession
    from xdlc.targets import Soc


def _open(
    model: Model,
    where: str | None = None,
    *,
    graph: str | None = None,
    soc: str | None = None,
    cpu_fallback: bool = False,
    notify: Notify | None = None,
    **options: Any,
) -> HtpSession | BinarySession:
    from xdlc.opdefs.control_flow import has_control_flow
    from xdlc.runtime.htp.cache_verdict import ALWAYS_NEW
    from xdlc.runtime.htp.session import BinarySession, HtpSession

    if not model.graphs:
        stated = {**options, "cpu_fallback": cpu_fallback}
        for option in ("outputs", "loop_timeout", "cpu_fallback"):
            if stated.get(option):
                raise UsageError(
                    f"{spell(option)} needs the graph of the model, but the file has only a cache",
                    where=where,
                    fix=f"omit {spell(option)}, or run the DLC that the cache came from",
                )
        if options.get("mode") == ALWAYS_NEW:
            problem = f"{spell('mode', ALWAYS_NEW)} uses no cache, but the file has no graph"
            raise UsageError(problem, where=where, fix=f"omit {spell('mode')}")
        return BinarySession(model, soc, graph=graph)
    whole = executable(model, where).with_main(graph)
    if cpu_fallback or has_control_flow(whole.main):
        options["divide"] = _dividing(notify, cpu_fallback)
    if notify is not None:
        options["notify"] = notify
    return HtpSession(whole, soc, name=where or "model", **options)


def _dividing(notify: Notify | None, partition: bool) -> Callable[[Model, str], Model]:
    """Return a function that compiles the partitions of a model that HTP supports.

    Args:
        notify: Called with each notice.
        partition: Whether HTP may refuse ops other than those that run branches and loops.
    """

    def divide(source: Model, name: str) -> Model:
        from xdlc.prepare.htp import prepare_all

        bare = Model(dict(source.graphs), source.metadata | {"cacheList": []})
        prepared = prepare_all(bare, [name], partition=partition, verify=False)
        raise_all(prepared.problems)
        if notify is not None:
            for text in prepared.notices:
                notify(text)
        return prepared.model

    return divide


def _describe(session: HtpSession) -> tuple[str, ...]:
    origin = f"from {session.record}" if session.record else "compiled now"
    parts = f", {session.partitions} partition(s), the rest on the CPU" if session.partitions else ""
    return (f"runs on: {session.soc}, {origin}{parts}",)


def _examine(name: str, soc: Soc | None) -> RuntimeState:
    from xdlc.runtime.htp import build_id
    from xdlc.runtime.htp.library import VARIABLE, named_folder
    from xdlc.targets import one_of_each
    from xdlc.worker.executors import open_compilers

    package = version_of("onnxruntime-qnn")
    library = f"onnxruntime-qnn {package}" if package else "onnxruntime-qnn is not installed"
    if folder := named_folder():
        library = f"{folder} ({VARIABLE})"
    core = "the vendor's emulation of the DSP"
    try:
        library += f", QNN {build_id()}"
    except XdlcError as error:
        return RuntimeState(name, library, core, (Trial("library", error),))
    socs = {f"{each.capabilities.name} ({each.name})": each for each in ([soc] if soc else one_of_each())}
    with open_compilers() as workers:
        tasks = {target: partial(_emulated, target, each) for target, each in socs.items()}
        outcomes: dict[str, Any] = dict(workers.each(tasks, name))
    for outcome in outcomes.values():
        if isinstance(outcome, Exception):
            raise outcome
    return RuntimeState(name, library, core, tuple(outcomes[target] for target in socs))


def _emulated(target: str, soc: Soc) -> Trial:
    def run(model: Model, stored: Any) -> Any:
        from xdlc.runtime.htp.process import WorkerSession
        from xdlc.runtime.htp.unsupported_op import without_htp

        if not soc.has_htp:
            raise without_htp(soc, "choose a SoC from v68 on")
        with WorkerSession.of_model(model, soc.name) as served:
            return served.run({"x": stored}, native=True)["y"]

    return tried(target, run)


def with_stored_cache(
    model: Model,
    folder: Path,
    soc: str | None,
    mode: str,
    outputs: Sequence[str],
    cpu_fallback: bool,
    notify: Notify,
) -> Model:
    """Return a model with a usable cache: its own, a stored cache, or a new cache.

    Args:
        model: The model.
        folder: Folder of stored caches.  Its DLCs are named after graph, SoC and content.
        soc: As for ``Session``, like all further options.
        mode: Caches to accept.
        outputs: Names of further tensors to return.
        cpu_fallback: Leave ops that HTP refuses to the CPU.
        notify: Called with a line that names the path of the file.

    Raises:
        StorageError: If the file cannot be read or written.
        XdlcError: As ``prepare`` does.
    """
    from hashlib import blake2b

    from xdlc.ir.fingerprint import fingerprint
    from xdlc.prepare.htp import prepare
    from xdlc.runtime.htp.cache_verdict import choose
    from xdlc.runtime.htp.session import with_outputs

    whole = with_outputs(model, outputs)
    names = [tensor.name for tensor in whole.main.outputs]
    choice = choose(whole, soc, outputs=names, mode=mode)
    if choice.records:
        return model
    content = "".join(map(fingerprint, whole.graphs.values())) + str(cpu_fallback)
    key = blake2b(content.encode(), digest_size=8).hexdigest()
    path = Path(folder) / f"{re.sub(r'[^A-Za-z0-9._-]', '_', model.main.name)[:64]}.{choice.soc}.{key}.dlc"
    if path.is_file():
        try:
            stored = load(path)
            if choose(stored, choice.soc, outputs=names, mode=mode).records:
                notify(f"xdlc uses the stored cache {path}")
                return stored
        except ContainerError as error:
            notify(f"xdlc replaces the damaged cache {path}: {error.problem}")
    make_folder(folder)
    bare = Model(dict(whole.graphs), whole.metadata | {"cacheList": []})
    made = prepare(bare, [choice.soc], partition=cpu_fallback)
    with kept_apart([path]):  # a damaged one was read
        made.save(path)
    notify(f"xdlc compiled and stored the cache: {path}")
    return made


add_runtime(
    Runtime(
        "htp",
        SHARED | {"graph", "soc", "mode", "validate", "cpu_fallback", "notify"},
        _open,
        _examine,
        describe=_describe,
        compiles=True,
        at_a_time=AT_A_TIME,
        end=lambda session: session.end(),
    ),
)
