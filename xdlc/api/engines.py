"""Engines of this machine, which run models: the CPU, sections of a record, the vendor's emulation."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from xdlc.api.models import executable, load, loaded
from xdlc.api.verbs import verb
from xdlc.errors import ContainerError, StorageError, UsageError, raise_all
from xdlc.ir import Model
from xdlc.ir.files import kept_apart
from xdlc.options import Notify, PathLike, options_of
from xdlc.options.running import KernelOptions

if TYPE_CHECKING:
    from xdlc.runtime.htp.session import HtpSession
    from xdlc.runtime.sections import SectionSession
    from xdlc.runtime.udo import Kernels

KERNEL_OPTIONS = tuple(options_of(KernelOptions))


def sections(model: Model | PathLike, **options: Any) -> SectionSession:
    """Return the session of the runtime ``aip``; options are those of ``session``.

    Raises:
        ContainerError: If there is no AIP record, or it is damaged, or does not fit the model.
        XdlcError: As ``session`` does.
    """
    from xdlc.runtime.sections import SectionSession

    whole = executable(model)
    try:
        with kernels_to_own(whole, options) as opened:
            found = SectionSession(whole, records=loaded(model).records, **options, **opened)
            found.own(*opened.values())
    except ContainerError as error:
        if not isinstance(model, Model):
            error.where = ": ".join(filter(None, (os.fspath(model), error.where)))
        raise
    return found


def emulation(model: Model | PathLike, soc: str | None = None, **options: Any) -> HtpSession:
    """Return the session of the runtime ``htp``; options are those of ``session``.

    The option ``name`` is the model's name in notices.

    Raises:
        XdlcError: As ``session`` does.
    """
    from xdlc.opdefs.control_flow import has_control_flow
    from xdlc.runtime.htp.session import HtpSession

    whole, partition = executable(model), bool(options.pop("cpu_fallback", False))
    if partition or has_control_flow(whole.main):
        options["divide"] = _dividing(options.get("notify"), partition)
    with kernels_to_own(whole, options) as opened:
        found = HtpSession(whole, soc, **options, **opened)
        found.own(*opened.values())
    return found


def with_stored_cache(
    model: Model,
    folder: Path,
    soc: str | None,
    mode: str,
    outputs: Sequence[str],
    cpu_fallback: bool,
    notify: Notify,
) -> Model:
    """Return a model with a usable cache: its own, or one from a folder, compiled and stored if missing.

    Options are those of ``session``; ``notify`` is called with the path of the file, which is named after
    graph, SoC and content.

    Raises:
        StorageError: If the file cannot be read or written.
        XdlcError: As ``prepare`` does.
    """
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
    key = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
    path = Path(folder) / f"{re.sub(r'[^A-Za-z0-9._-]', '_', model.main.name)[:64]}.{choice.soc}.{key}.dlc"
    if path.is_file():
        try:
            stored = load(path)
            if choose(stored, choice.soc, outputs=names, mode=mode).records:
                notify(f"the cache is from {path}")
                return stored
        except ContainerError as error:
            notify(f"{path} is damaged and replaced: {error.problem}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem, fix = f"cannot be made: {error.strerror or error}", "choose a folder that you may write to"
        raise StorageError(problem, where=str(folder), fix=fix) from error
    bare = Model(dict(whole.graphs), whole.metadata | {"cacheList": []})
    made = prepare(bare, [choice.soc], partition=cpu_fallback)
    with kept_apart([path]):  # a damaged one was read
        made.save(path)
    notify(f"the cache is compiled and stored: {path}")
    return made


def _dividing(notify: Notify | None, partition: bool) -> Callable[[Model, str], Model]:
    """Return a function that compiles the partitions of a model that HTP supports.

    Args:
        notify: Called with each notice.
        partition: Whether HTP may refuse ops other than those that run branches and loops.
    """

    def divide(source: Model, name: str) -> Model:
        from xdlc.prepare.htp import prepare_all

        bare = Model(dict(source.graphs), source.metadata | {"cacheList": []})
        prepared = prepare_all(bare, [name], partition=partition)
        raise_all(prepared.problems)
        if notify is not None:
            for text in prepared.notices:
                notify(text)
        return prepared.model

    return divide


@verb
def kernels(model: Model | PathLike, **options: Unpack[KernelOptions]) -> Kernels:
    """Return the kernels of a model's UDOs, for any number of sessions.

    They run in a process of their own, which ends when they are closed: use them as a context manager.

    Args:
        model: The model, or the path of a DLC.
        **options: Options of the kernels.

    Raises:
        UsageError: If a file is missing, the time-out is not valid, or an option has no effect.
    """
    from xdlc.runtime.udo.kernels import open_kernels

    return open_kernels(loaded(model), **options)


@contextmanager
def kernels_to_own(model: Model, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Open the kernels that ``options`` name, and yield them as an option for a session that closes them.

    They are closed here on an error; files without a kernel for the model are logged.
    """
    named = {name: options.pop(name) for name in KERNEL_OPTIONS if name in options}
    if not named:
        yield {}
        return
    if "kernels" in options:
        raise UsageError(f"kernels= is given beside {', '.join(named)}", fix="give one or the other")
    with ExitStack() as stack:
        opened = stack.enter_context(kernels(model, **named))
        yield {"kernels": opened}
        stack.pop_all()
    for path in opened.unused():
        logging.getLogger(__name__).warning("%s is unused: it implements no op of the model", path)
