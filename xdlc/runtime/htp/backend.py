"""Backend on libQnnHtp for a SoC: validates, compiles and executes graphs.

Runs in a child process only.  The library does not support a second SoC in one process.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from ctypes import byref, c_char_p, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from xdlc.container import load
from xdlc.container.caches import PREFIX
from xdlc.errors import BackendError
from xdlc.ir import Graph, Op, Tensor
from xdlc.options import spell
from xdlc.runtime.htp import structs as st
from xdlc.runtime.htp.library import LOG_ERROR, VendorLog, dotted, load_htp, load_system
from xdlc.runtime.htp.lower import Lowering
from xdlc.runtime.htp.options import CompileOptions, context_options, device_option, graph_options
from xdlc.runtime.htp.unsupported_op import (
    RefusedOp,
    fix_of_floats,
    is_quantized,
    scales_problem,
)
from xdlc.runtime.htp.validator_log import explain, missing_format, type_name
from xdlc.runtime.vendor_errors import explain as explain_line

_VAGUE = "the graph could not be compiled"
"""Cause that ``vendor_errors.toml`` has of lines that follow from others."""
_USUAL_RANK = 4
_DETAILED, _OP_TRACE = 2, 2
"""Level of a profile (QnnProfile_Level_t), and its option of an op trace (QnnProfile_ConfigOption_t)."""

_PLAIN = CompileOptions()


class Htp:
    """A backend, device and context of libQnnHtp for a SoC.

    Args:
        soc_id: The SoC's number in the QNN API.
        step: Called with what is about to happen, for the report in case the process dies.
        binary: A context binary to start from, instead of an empty context.
        options: Options of an empty context; one that shares its weights is for ``shared_cache``.
        arch: An architecture like 75, to compile for any SoC of it; ``soc_id`` does not count then.

    Raises:
        BackendError: If the library is missing or unknown, or refuses the SoC or the binary.
    """

    def __init__(
        self,
        soc_id: int,
        step: Callable[[str], None] = lambda text: None,
        binary: bytes | None = None,
        *,
        options: CompileOptions = _PLAIN,
        arch: int | None = None,
    ) -> None:
        self._step = step
        self.library = load_htp()
        if options.share_weights and not (release := self.library.release).shares_weights:
            raise BackendError(
                f"the libraries of SDK {dotted(release.sdk)} write no caches that share weights",
                fix=f"omit {spell('share_weights', True)}, or use SDK 2.50 or newer",
            )
        self.log = VendorLog()
        self._log, self._backend, self._device, self._context = (c_void_p() for _ in range(4))
        self._keep: list[object] = []
        self._call("logCreate", self.log.callback, LOG_ERROR, byref(self._log), doing="opening a log")
        self._call("backendCreate", self._log, None, byref(self._backend), doing="starting the backend")
        configs, keep = st.config_list([device_option(soc_id, arch, self.library.release.device_offset)])
        self._keep.extend((configs, keep))
        chosen = f"SoC {soc_id}" if arch is None else f"architecture {arch}"
        self._call("deviceCreate", self._log, configs, byref(self._device), doing=f"choosing {chosen}")
        if binary is None:
            configs, keep = st.config_list(context_options(options))
            self._keep.extend((configs, keep))
            self._call(
                "contextCreate",
                self._backend,
                self._device,
                configs,
                byref(self._context),
                doing="creating a context",
            )
        else:
            self._keep.append(binary)
            self._call(
                "contextCreateFromBinary",
                self._backend,
                self._device,
                None,
                binary,
                len(binary),
                byref(self._context),
                None,
                doing="loading the cache",
            )

    def _call(self, function: str, *arguments: object, doing: str) -> None:
        self._step(doing)
        code = self.library.call(function, *arguments)
        if code:
            raise BackendError(
                "; ".join(
                    [f"{doing} failed with QNN error {code} ({self.message(code)})", *self.log.take()[:6]]
                ),
                code="XD704",
            )

    def message(self, code: int) -> str:
        """Return the library's name of an error code."""
        text = c_char_p()
        if self.library.call("errorGetMessage", code, byref(text)) or not text.value:
            return "no description"
        return text.value.decode(errors="replace")

    def validate(self, graph: Graph, skip: frozenset[tuple[str, ...]] = frozenset()) -> list[RefusedOp]:
        """Query each op of a graph; return the ops that HTP does not support.

        Args:
            skip: (graph name, op name) of the ops to omit.
        """
        unsupported = []
        for op in graph.ops:
            if (graph.name, op.name) in skip:
                continue
            if (problem := scales_problem(op)) is not None:
                unsupported.append(RefusedOp(graph.name, op.name, type_name(op), *problem))
                continue
            self._step(json.dumps(["validate", graph.name, op.name, type_name(op)]))
            lowering = Lowering()
            config = _config(lowering, op, lowering.tensor)
            self.log.take()
            code = self.library.call("backendValidateOpConfig", self._backend, config)
            if code:
                unsupported.append(_unsupported(graph, op, code, self.log.take()))
            for tensor in op.inputs:
                if tensor is not None and tensor.data is not None:
                    tensor.data.release()
        return unsupported

    def compile(
        self, graph: Graph, options: CompileOptions, *, name: str | None = None, is_traced: bool = False
    ) -> CompiledGraph:
        """Build a graph and finalize it.

        Args:
            name: What the library calls it; default: the name of the graph.
            is_traced: Whether the library writes its op trace, ``<name>_schematic.bin``, into the current
                folder.

        Raises:
            BackendError: With the library's log, naming the op or tensor at fault where there is one.
        """
        configs, keep = st.config_list(graph_options(options))
        handle = c_void_p()
        self._call(
            "graphCreate",
            self._context,
            (name or graph.name).encode(),
            configs,
            byref(handle),
            doing=f"creating graph {graph.name}",
        )
        lowering = Lowering()
        self._keep.extend((configs, keep, lowering))
        tensors: dict[str, st.QnnTensor] = {}

        def register(tensor: Tensor) -> st.QnnTensor:
            struct = tensors.get(tensor.name)
            if struct is None:
                struct = tensors[tensor.name] = lowering.tensor(tensor)
                self._call(
                    "tensorCreateGraphTensor",
                    handle,
                    byref(struct),
                    doing=f"creating tensor {tensor.name} ({tensor.dtype} {list(tensor.shape)})",
                )
                struct.client_data, struct.client_size = None, 0
                lowering.forget_data()
                if tensor.data is not None:
                    tensor.data.release()
            return struct

        # Tensors are created in the order of the vendor's own reader: the same model, the same bytes.
        # The library runs a graph that has inputs only if an op reads one.
        inputs = [register(tensor) for tensor in graph.inputs] if reads_inputs(graph) else []
        outputs = [register(tensor) for tensor in graph.outputs]
        for number, op in enumerate(graph.ops):
            config = _config(lowering, op, register)
            if is_traced:  # the trace has the name as text, whatever it holds
                config.name = str(number).encode()
            self._call("graphAddNode", handle, config, doing=f"adding op {op.name} ({type_name(op)})")
        try:
            with self._profile() if is_traced else nullcontext() as profile:
                self._call("graphFinalize", handle, profile, None, doing=f"compiling graph {graph.name}")
        except BackendError as error:
            _explain(error, graph, is_traced)
            raise
        return CompiledGraph(self, graph.name, handle, inputs, outputs)

    @contextmanager
    def _profile(self) -> Iterator[c_void_p]:
        """Yield a profile that requests an op trace."""
        profile = c_void_p()
        self._call("profileCreate", self._backend, _DETAILED, byref(profile), doing="creating a profile")
        try:
            config = st.ProfileConfig(_OP_TRACE, 0, 1)
            configs = (c_void_p * 2)(ctypes.addressof(config), None)
            self._call("profileSetConfig", profile, configs, doing="requesting an op trace")
            yield profile
        finally:
            self.library.call("profileFree", profile)

    def retrieve(
        self, name: str, inputs: Sequence[st.QnnTensor], outputs: Sequence[st.QnnTensor]
    ) -> CompiledGraph:
        """Return a graph of the binary that the context was created from."""
        handle = c_void_p()
        self._call(
            "graphRetrieve", self._context, name.encode(), byref(handle), doing=f"finding graph {name}"
        )
        return CompiledGraph(self, name, handle, inputs, outputs)

    def binary(self) -> ctypes.Array[ctypes.c_char]:
        """Return the context, with its compiled graphs, as a context binary."""
        size, written = c_uint64(), c_uint64()
        self._call("contextGetBinarySize", self._context, byref(size), doing="sizing the cache")
        buffer = (ctypes.c_char * size.value)()
        self._call("contextGetBinary", self._context, buffer, size, byref(written), doing="writing the cache")
        return (ctypes.c_char * written.value).from_buffer(buffer)

    def shared_cache(self, path: Path) -> bytes:
        """Write a DLC with the context; return its cache, which shares its weights.

        The vendor's library calls it reference weight sharing: the DLC has a cache without weights and a
        record ``htp.shared.weights.<hash>`` with a description of it.  The hash is that of the weights in
        the form of an architecture: v68 and v69 have one form, v73 and v75 another.  The library loads such
        caches on devices only; its emulation reports that the platform does not support them.

        Raises:
            BackendError: If the library cannot, cannot write the file, or there is not one cache in it.
        """
        system, dlc = load_system(), c_void_p()
        self._step("writing the cache")
        code = system.call("dlcCreateWithDestDir", None, None, byref(dlc))
        if not code:
            self._call("contextAddToDlc", self._context, dlc, doing="adding the cache to a DLC")
            code = system.call("dlcSave", dlc, str(path).encode())
        if code:
            raise BackendError(f"cannot write the cache: QNN error {code}", fix="check the free space")
        records = load(path).records
        found = [name for name in records if name.startswith(PREFIX)]
        if len(found) != 1:
            raise BackendError(f"the library wrote {len(found)} caches, not 1", fix="prepare the SoC again")
        return bytes(records[found[0]].numpy().data)


class CompiledGraph:
    """A graph ready to run; ``inputs`` and ``outputs`` are its tensors in order."""

    def __init__(
        self,
        htp: Htp,
        name: str,
        handle: c_void_p,
        inputs: Sequence[st.QnnTensor],
        outputs: Sequence[st.QnnTensor],
    ) -> None:
        self._htp, self._name, self._handle = htp, name, handle
        self.inputs = (st.QnnTensor * len(inputs))(*inputs)
        self.outputs = (st.QnnTensor * len(outputs))(*outputs)

    def execute(self, feeds: Sequence[Any], results: Sequence[Any]) -> None:
        """Run once, from ``feeds`` into ``results``: arrays in order, of the right types.

        Args:
            feeds: An array for each input, which are not used if no op reads an input.

        Raises:
            BackendError: With the library's log.
        """
        feeds = feeds if len(self.inputs) else ()
        for tensor, array in zip((*self.inputs, *self.outputs), (*feeds, *results), strict=True):
            tensor.mem_type = 0
            tensor.client_data, tensor.client_size = array.ctypes.data, array.nbytes
        self._htp._call(
            "graphExecute",
            self._handle,
            self.inputs,
            len(self.inputs),
            self.outputs,
            len(self.outputs),
            None,
            None,
            doing=f"executing graph {self._name}",
        )


def reads_inputs(graph: Graph) -> bool:
    """Return whether any op of a graph reads an input."""
    return any(map(graph.consumers, graph.inputs))


def build_id() -> str:
    """Return the build of the library, like ``v2.51.0.260929181845``.

    Raises:
        BackendError: If the library is missing or unknown, or reports none.
    """
    text = c_char_p()
    code = load_htp().call("backendGetBuildId", byref(text))
    if code or not text.value:
        raise BackendError(f"the vendor's library reports no build (QNN error {code})")
    return text.value.decode(errors="replace")


def _explain(error: BackendError, graph: Graph, is_traced: bool) -> None:
    """Add a cause and a fix to the compiler's log of a graph.

    Args:
        is_traced: Whether ops were compiled under their numbers.
    """
    code, _, log = error.problem.partition("; ")
    of_code = explain_line(code)
    vague = {_VAGUE, *(reason.cause for reason in of_code)}
    logged = [
        reason for line in log.split("; ") for reason in explain_line(line) if reason.cause not in vague
    ]
    reasons = logged or of_code
    called = {str(place) if is_traced else op.name: op for place, op in enumerate(graph.ops)}
    ops = [op for name, op in called.items() if f'"{name}"' in error.problem]
    names = ", ".join(f"{op.name!r} ({type_name(op)})" for op in ops[:3])
    named = f"; the library names {names}" if ops else ""
    if reasons:
        error.problem = f"{reasons[0].cause}{named}; {error.problem}"
        error.fix = reasons[0].fix
    deep = [tensor for tensor in graph.tensors.values() if tensor.rank > _USUAL_RANK and tensor.data is None]
    if deep and not logged:
        names = ", ".join(f"{tensor.name!r} {list(tensor.shape)}" for tensor in deep[:3])
        count = f"{len(deep)} tensor(s) of more than {_USUAL_RANK} dimensions"
        error.problem = f"{error.problem}; the cause may be {count}: {names}"
        fix = f"use tensors of at most {_USUAL_RANK} dimensions: split the listed tensors"
        error.fix = f"{fix}; or {error.fix}" if error.fix else fix


def _unsupported(graph: Graph, op: Op, code: int, log: Sequence[str]) -> RefusedOp:
    problem, fix = explain(op, code, log)
    missing = missing_format(log)
    if missing is not None:
        problem = f"this SoC has no {missing}: it supports only ops of quantized types"
        fix = fix_of_floats(is_quantized=is_quantized(graph))
    return RefusedOp(graph.name, op.name, type_name(op), problem, fix, missing)


def _config(lowering: Lowering, op: Op, describe: Callable[[Tensor], st.QnnTensor]) -> st.QnnOpConfig:
    inputs = [lowering.null() if tensor is None else describe(tensor) for tensor in op.inputs]
    outputs = [describe(tensor) for tensor in op.outputs]
    params = [
        lowering.tensor_param(name, describe(param))
        if isinstance(param, Tensor)
        else lowering.scalar_param(name, param)
        for name, param in op.params.items()
    ]
    return lowering.op(op, params, inputs, outputs)
