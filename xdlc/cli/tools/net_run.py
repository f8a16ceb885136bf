"""``xdlc-net-run``: a DLC executed on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xdlc.cli import bars, params, result_files
from xdlc.cli.output_path import folder_for
from xdlc.cli.params import all_of, flags_of, kernel_flags
from xdlc.cli.tool import notice, show, tool
from xdlc.errors import UsageError
from xdlc.options import options_of
from xdlc.options.running import KernelOptions, RunOptions

if TYPE_CHECKING:
    from xdlc.ir import Model
    from xdlc.runtime.profile import Profiler
    from xdlc.runtime.udo import Kernels

_OF_HTP = ("soc", "mode", "validate", "cpu_fallback")
_PER_OP = ("moderate", "detailed")
"""Levels of profiling that time ops."""


@tool(
    "xdlc-net-run",
    epilog="Result N of the list goes to OUTPUT_DIR/Result_N/<tensor>.raw, float32 unless native files "
    "are requested; a slash in a tensor's name makes a folder. A dynamic dimension of the DLC follows "
    "from the size of the input's raw file; inputs with several of them take .npy files, which state "
    "their shapes. Lists of several graphs have commas between them, __ omits a graph; results are in "
    "OUTPUT_DIR/<graph>/Result_N then.",
)
@click.option("--container", "source", type=params.INPUT_FILE, required=True, help="The DLC.")
@click.option(
    "--input_list", type=params.INPUT_FILE, required=True, help="Input list: one line per inference."
)
@click.option(
    "--output_dir",
    type=params.OUTPUT_FILE,
    default=Path("output"),
    show_default=True,
    help="Folder of the results.",
)
@click.option(
    "--runtime",
    type=click.Choice(["cpu", "htp"]),
    default="cpu",
    show_default=True,
    help="Runtime: cpu, onnxruntime, or htp, the vendor's emulation of the DSP.",
)
@flags_of(
    RunOptions,
    without=("outputs", "quantized", "plain", "threads", "kernels", "notify", *options_of(KernelOptions)),
)
@click.option(
    "--enable_init_cache",
    is_flag=True,
    help="Store the cache that is compiled where none is usable, and take it in later runs (htp only).",
)
@click.option(
    "--storage_dir",
    type=params.OUTPUT_FILE,
    help="Folder of caches of --enable_init_cache.  [default: OUTPUT_DIR]",
)
@click.option(
    "--use_native_input_files",
    "native_in",
    is_flag=True,
    help="Read raw files in the inputs' own types; integers are read so in any case.",
)
@click.option(
    "--use_native_output_files",
    "native_out",
    is_flag=True,
    help="Write results in the tensors' own types, as <tensor>_native.raw.",
)
@click.option(
    "--native_input_tensor_names",
    "native_names",
    metavar="GRAPH:T1,T2;..",
    help="Inputs whose raw files are in their own types, instead of --use_native_input_files.",
)
@click.option(
    "--set_output_tensors",
    "tensors",
    multiple=True,
    metavar="T1,T2",
    help="Tensors to write beside the graph's outputs: with a cache those that it was compiled for, with "
    "sections those between them. 'GRAPH T1,T2' for one of several graphs.",
)
@click.option(
    "--set_output_layers",
    "layers",
    multiple=True,
    metavar="OP1,OP2",
    help="Ops whose outputs are written likewise.",
)
@click.option(
    "--set_unconsumed_as_output", "unread", is_flag=True, help="Write tensors that no op reads, too."
)
@click.option("--dump_all_tensors", "every", is_flag=True, help="Write every tensor that an op computes.")
@all_of(*params.dimension_flags)
@click.option(
    "--num_inferences",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="Number of inferences: the list is repeated, or cut. Results are those of the first pass.",
)
@click.option(
    "--duration",
    type=params.NumberRange(0, 86_400, min_open=True),
    metavar="SECONDS",
    help="Repeat the list until this time is over.",
)
@click.option(
    "--keep_num_outputs", type=click.IntRange(0), metavar="N", help="Write no more results.  [default: all]"
)
@click.option(
    "--profiling_level",
    "level",
    type=click.Choice(["off", "basic", "moderate", "detailed"]),
    default="off",
    show_default=True,
    help="Times on this machine, printed and in OUTPUT_DIR/profile.csv: basic, of inferences; moderate and "
    "detailed, of each op too (cpu only).",
)
@kernel_flags
def main(
    source: Path,
    input_list: Path,
    output_dir: Path,
    runtime: str,
    input_names: tuple[str, ...],
    input_dims: tuple[str, ...],
    **options: Any,
) -> None:
    """Run a DLC on inputs from files.

    Every line of the input list is one inference; its outputs are written as files.
    """
    dims = params.dims_of(input_names, input_dims)
    options["several"] = bool(dims) or ("," in str(input_list) and not os.path.isfile(input_list))
    _check(runtime, options)
    if options["level"] in _PER_OP and (runtime != "cpu" or options["use_aip"]):
        notice(
            f"--profiling_level {options['level']} times inferences, as basic does: the emulation of a "
            "device has no times of its own for ops"
        )
        options["level"] = "basic"
    from xdlc import api
    from xdlc.ir import Model
    from xdlc.opdefs.control_flow import outer_graphs
    from xdlc.prepare.edit import edit
    from xdlc.runtime.input_list import lists_of

    with bars.steps("reading"):
        model = api.executable(source)
        lists = lists_of(input_list, [graph.name for graph in outer_graphs(model)])
        model = edit(model, input_dimensions=dims) if dims else model
    if options["enable_init_cache"] and runtime != "htp":
        notice("--enable_init_cache has no effect: the CPU runs without a cache")
    elif options["storage_dir"] is not None and not options["enable_init_cache"]:
        notice("--storage_dir has no effect without --enable_init_cache")
    named = {name: options.pop(name) for name in options_of(KernelOptions)}
    with api.kernels(model, **named) as kernels:
        folders = {} if [*lists.values()] == [input_list] else result_files.paths_of(lists, "graph")
        for graph, path in lists.items():
            others = {name: other for name, other in model.graphs.items() if name != graph}
            _run(
                Model({graph: model.graphs[graph], **others}, model.metadata, model.records),
                path,
                output_dir / folders.get(graph, ""),
                runtime,
                {**options, "source": source, "kernels": kernels, "running": lists.keys()},
            )
        for unused in kernels.unused():
            notice(f"{unused} is unused: it implements no op of the model")


def _check(runtime: str, options: Mapping[str, Any]) -> None:
    for name in (*_OF_HTP, "use_aip"):
        wanted = "htp" if name in _OF_HTP else "cpu"
        if options[name] and runtime != wanted:
            param = next(each for each in main.params if each.name == name)
            flag, wanted = param.opts[0], f"--runtime {wanted}"
            raise UsageError(f"{flag} requires {wanted}", fix=f"add {wanted}, or omit {flag}")
    if options["validate"] and options["mode"] == "always_generate_new":
        raise UsageError(
            "--validate_cache wants a cache, always_generate_new takes none", fix="omit one of the two"
        )
    if options["use_aip"] and options["several"]:
        raise UsageError(
            "--use_aip runs the main graph as it was compiled",
            fix="omit --use_aip, or --input_dimensions and further input lists",
        )
    if options["native_names"] and options["native_in"]:
        raise UsageError(
            "--native_input_tensor_names and --use_native_input_files exclude each other",
            fix="omit one of the two",
        )


def _run(model: Model, listing: Path, target: Path, runtime: str, options: Mapping[str, Any]) -> None:
    """Run the main graph on the inferences of a list."""
    from xdlc.ir.files import replace_text
    from xdlc.prepare.edit.outputs import extra_outputs, named_inputs
    from xdlc.runtime.input_list import read_input_list
    from xdlc.runtime.profile import Profiler
    from xdlc.runtime.states import next_values

    native = options["native_out"]
    named = named_inputs(model, options["native_names"] or "")
    inputs = read_input_list(
        listing, model.main, native=options["native_in"] or named, optional=next_values(model)
    )
    extra = extra_outputs(
        model,
        [*options["tensors"], inputs.tensors],
        [*options["layers"], inputs.ops],
        unread=options["unread"],
        every=options["every"],
        running=options["running"],
    )
    names = [*(tensor.name for tensor in model.main.outputs), *extra]
    files = result_files.paths_of(names, "output", "_native.raw" if native else ".raw")
    count, seconds, most = (options[name] for name in ("num_inferences", "duration", "keep_num_outputs"))
    with ExitStack() as stack:
        step = stack.enter_context(bars.steps("building the network", "inference"))
        profiler = stack.enter_context(Profiler())
        session = stack.enter_context(_session(model, target, runtime, extra, profiler, options))
        stack.enter_context(folder_for(target / "Result_0"))
        done = number = 0
        begin = time.monotonic()
        for number, inference in enumerate(inputs.repeated(count, seconds), 1):
            results = profiler.run(session.run, inference.feeds(), native=native)
            if number == 1 and runtime == "htp" and not seconds:
                _forecast(time.monotonic() - begin, count or len(inputs))
            for index in range(inference.results if number <= len(inputs) else 0):
                if most is None or done < most:
                    part = None if inference.batch is None else (index, inference.batch)
                    result_files.write(target / f"Result_{done}", files, results, part, native)
                    done += 1
            step("running", number, 0 if seconds else count or len(inputs))
        profile = profiler.result()
    if options["level"] != "off":
        with folder_for(target / "profile.csv"):
            replace_text(target / "profile.csv", profile.csv())
        for line in str(profile).splitlines():
            show(line)
    repeated = f"; {number} inferences, results of the first {len(inputs)}" if number > len(inputs) else ""
    show(
        f"written: {target}/Result_0 to Result_{done - 1}{repeated}" if done else f"nothing written{repeated}"
    )


def _forecast(first: float, count: int) -> None:
    """Print a notice of the time that all inferences take, if it is minutes.

    Args:
        first: Seconds of the first one.
        count: Number of inferences.
    """
    minutes = first * count / 60
    if count > 1 and minutes >= 1:
        notice(f"{count} inferences take about {minutes:.0f} minute(s): emulation is slower than the DSP")


def _session(
    model: Model,
    target: Path,
    runtime: str,
    extra: Sequence[str],
    profiler: Profiler,
    options: Mapping[str, Any],
) -> AbstractContextManager[Any]:
    from xdlc import api

    if options["use_aip"]:
        sections = api.sections(
            options["source"], outputs=extra, loop_timeout=options["loop_timeout"], kernels=options["kernels"]
        )
        for line in sections.notices:
            notice(line)
        show(f"runs: {sections}")
        return sections
    kernels: Kernels = options["kernels"]
    if runtime == "cpu":
        from xdlc.runtime import CpuSession

        return nullcontext(
            CpuSession(
                model,
                outputs=extra,
                loop_timeout=options["loop_timeout"],
                kernels=kernels,
                profiler=profiler if options["level"] in _PER_OP else None,
            )
        )
    mode, fallback = options["mode"] or "permissive", options["cpu_fallback"]
    if options["enable_init_cache"] and mode != "always_generate_new":
        folder = options["storage_dir"] or target
        model = api.with_stored_cache(model, folder, options["soc"], mode, extra, fallback, notice)
    session = api.emulation(
        model,
        options["soc"],
        mode=mode,
        outputs=extra,
        validate=options["validate"],
        cpu_fallback=fallback,
        notify=notice,
        name=str(options["source"]),
        loop_timeout=options["loop_timeout"],
        kernels=kernels,
    )
    origin = f"from {session.record}" if session.record else "compiled now"
    parts = f", {session.partitions} partition(s), the rest on the CPU" if session.partitions else ""
    show(f"runs on: {session.soc}, {origin}{parts}")
    return session
