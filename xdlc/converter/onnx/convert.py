"""From an ONNX file to the IR: open, bind shapes, import, run the passes, verify."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdlc import ir, opdefs, passes
from xdlc.converter.onnx.importing import import_model
from xdlc.converter.onnx.set_inputs import set_inputs as fix_inputs
from xdlc.converter.onnx.source import OnnxFile
from xdlc.converter.operators.control_flow.unread import drop_unread
from xdlc.converter.session import dynamic_dims
from xdlc.converter.session.bindings import blame_bindings, input_shapes, open_symbols
from xdlc.converter.session.diagnostics import Findings
from xdlc.converter.udo.diagnostics import broken_rules, notices
from xdlc.converter.udo.merged_definition import backend_forms
from xdlc.converter.udo.native_ops import (
    check_package_name,
    check_replacements,
    rename_package,
    replace_native,
)
from xdlc.converter.udo.storing import store_definitions, store_kernels
from xdlc.errors import UsageError, XdlcError, each_problem, raise_all
from xdlc.opdefs.control_flow import remove_uncalled
from xdlc.opdefs.control_flow_rules import verify_control_flow
from xdlc.opdefs.source_match import UdoSet
from xdlc.passes.fold_quantize_dequantize import FoldQuantizeDequantize
from xdlc.runtime import dynamic_dims as open_dimensions
from xdlc.version import VERSION

UNROLL_LOOPS = 16
_log = logging.getLogger(__name__)
_NO_CUSTOM_OPS = UdoSet()


def convert(
    path: str | os.PathLike[str],
    *,
    input_dims: Mapping[str, Sequence[int]] | None = None,
    define_symbol: Mapping[str, int] | None = None,
    batch: int | None = None,
    set_inputs: Mapping[str, Any] | None = None,
    out_name: Sequence[str] | None = None,
    disable_batchnorm_folding: bool = False,
    unroll_loops: int = UNROLL_LOOPS,
    package_name: str | None = None,
    custom: UdoSet = _NO_CUSTOM_OPS,
    findings: Findings | None = None,
    notify: Callable[[str], None] | None = None,
    step: Callable[[str, int, int], None] | None = None,
) -> ir.Model:
    """Return the model of an ONNX file; weights stay in the file until they are written or used.

    Args:
        path: The ``.onnx`` file; external data lie in its folder.
        input_dims: Shapes by input name, batch included; needed for open dimensions.
        define_symbol: Values of symbolic dimensions by name.
        batch: First dimension of every input.
        set_inputs: Values by name of inputs that become constants: numbers, lists, arrays, or paths of
            ``.npy`` files.  One number fills a shape whose dimensions are all known.
        out_name: Values at which the graph ends; default: the model's outputs.
        disable_batchnorm_folding: Keep Batchnorm ops apart from the convolutions before them.
        unroll_loops: Most iterations of a loop of known length that are put one after the other instead
            of kept as a loop, which no accelerator runs; 0 keeps all loops.
        package_name: Op package of all native operations instead of QNN's own.
        custom: Operations that the user defines.
        findings: Takes the problems of nodes and ops, which are then not raised: the result holds what
            could be converted, and is no whole model if there are any.
        notify: Called with each notice: what is good to know and no problem; default: the log.  Not with
            ``findings``, which has them.
        step: Called with the title of what is done, the number of steps done and of all (0: not known).

    Raises:
        XdlcError: Every problem found; several come as one ProblemList.
    """
    if unroll_loops < 0:
        raise UsageError(f"unroll_loops is {unroll_loops}", fix="give a number of iterations, from 0 on")
    if package_name is not None:
        check_package_name(package_name)
    check_replacements(custom)
    file = OnnxFile(path)
    shapes = input_shapes(
        file.proto.graph,
        str(path),
        input_dims=input_dims or {},
        symbols=define_symbol or {},
        batch=batch,
    )
    fixed = fix_inputs(file.proto.graph, shapes, set_inputs or {}, str(path))
    found = Findings() if findings is None else findings
    for name, value in fixed.items():
        found.notices.append(f"input {name!r} is fixed to {value}: it is no input of the result")
    model = import_model(file, shapes, out_name, found, unroll_loops, custom, step)
    if step is not None:
        step("optimizing", 0, 0)
    is_bound = bool(input_dims or define_symbol or batch is not None)
    found.problems = blame_bindings(found.problems, file.proto.graph, input_dims or {}, is_bound=is_bound)
    if found is not findings:
        raise_all(found.problems, where=str(path))
    elif found.problems:
        _keep_unread(model.main)
    removed: dict[str, str] = {}
    skipped = {"fold_batchnorm"} if disable_batchnorm_folding else set()
    chosen = [_for_customs(entry, custom) for entry in passes.stage("converter") if entry.name not in skipped]
    inner = [_keeping_signature(entry) for entry in chosen]
    for graph in model.graphs.values():
        passes.run(graph, chosen if graph is model.main else inner, removed=removed)
        passes.run(graph, passes.stage("storage"))
    remove_uncalled(model)
    if not found.problems:
        drop_unread(model)
        dynamic_dims.settle(model)
    for graph in model.graphs.values():
        graph.verify()
        found.problems += opdefs.verify_graph(graph)
    found.problems += verify_control_flow(model.graphs)
    _take_up(model, custom, found)
    if found is not findings:
        raise_all(found.problems, where=str(path))
    found.settle(list(model.graphs.values()), removed)
    model.metadata["nodes"] = [[node.name, node.type, node.reason] for node in found.nodes]
    if found.layouts:
        model.metadata["layouts"] = found.layouts
    symbols = open_symbols(file.proto.graph, model.main)
    if symbols:
        model.metadata["symbols"] = symbols
    unbound = open_dimensions.notice(model)
    if unbound is not None:
        found.notices.append(unbound)
    names = found.other_names(model.main)
    if names:
        model.metadata["tensors"] = {model.main.name: names}
    if package_name is not None:
        rename_package(model, package_name, found.notices)
    options = {
        "batch": batch,
        "out_name": ",".join(out_name) if out_name else None,
        "unroll_loops": unroll_loops if unroll_loops != UNROLL_LOOPS else None,
        "disable_batchnorm_folding": "true" if disable_batchnorm_folding else None,
        "package_name": package_name,
    }
    args = {"input_network": os.fsencode(os.path.basename(os.fspath(path))).decode("utf-8", "replace")}
    args |= {f"input_dim {name}": ",".join(map(str, dims)) for name, dims in (input_dims or {}).items()}
    args |= {f"define_symbol {name}": str(value) for name, value in (define_symbol or {}).items()}
    args |= {f"set_input {name}": value for name, value in fixed.items()}
    args |= {name: str(value) for name, value in options.items() if value is not None}
    model.metadata["history"] = [{"tool": "xconv-onnx-to-dlc", "converterVersion": VERSION, "args": args}]
    for notice in found.notices if found is not findings else ():
        (notify or _log.warning)(notice)
    return model


def _take_up(model: ir.Model, custom: UdoSet, found: Findings) -> None:
    """Let packages of users replace native ops, check users' ops, and store what is known of them."""
    replacing, misfits = replace_native(model, custom)
    found.problems += misfits
    found.problems += broken_rules(model, custom)
    found.notices += notices(model, custom, [*found.used, *replacing])
    if found.problems:
        return
    try:
        store_definitions(model, custom)
        store_kernels(model, custom)
    except XdlcError as error:
        found.problems += each_problem(error)


def _for_customs(entry: passes.Pass, custom: UdoSet) -> passes.Pass:
    if isinstance(entry, FoldQuantizeDequantize):
        return replace(entry, customs=backend_forms(custom))
    return entry


def _keeping_signature(entry: passes.Pass) -> passes.Pass:
    return replace(entry, ports=False) if isinstance(entry, FoldQuantizeDequantize) else entry


def _keep_unread(graph: ir.Graph) -> None:
    """Make what nothing reads an output, so that the passes leave it in a graph with gaps."""
    for op in list(graph.ops):
        for tensor in op.outputs:
            if not graph.consumers(tensor) and not graph.is_output(tensor):
                graph.add_output(tensor)
