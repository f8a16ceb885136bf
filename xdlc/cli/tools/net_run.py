"""``xdlc-net-run``: a DLC executed on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xdlc.cli import bars, output_path, params
from xdlc.cli.params import all_of, flags_of, kernel_flags
from xdlc.cli.quant_flow import in_command
from xdlc.cli.tool import command_line, facts, note, notice, result, show, tool, warn, written
from xdlc.errors import UsageError
from xdlc.options import DEFAULT_SOC, options_of
from xdlc.options.quantizing import QuantizeOptions
from xdlc.options.running import KernelOptions, RunOptions
from xdlc.registry import module_names

if TYPE_CHECKING:
    from xdlc.api.runtimes import Runtime
    from xdlc.ir import Graph, Model
    from xdlc.runtime.input_list import Inference, InputList
    from xdlc.runtime.profile import Profiler

_PER_OP = ("moderate", "detailed")
"""Levels of profiling that time ops."""
_QUANTIZING = (
    "accuracy", "act_bitwidth", "weights_bitwidth", "act_bitwidth_of", "float_ops", "min_sqnr", "algorithms",
    "input_dims",
)  # fmt: skip
"""Options of quantizing that advice names, and that bind dimensions."""


@tool(
    "xdlc-net-run",
    epilog="xdlc writes the results of sample N, counted from 0, to OUTPUT/Result_N/<tensor>.raw. The files "
    "hold float32, or other types with --use-native-output-files. A slash in a tensor's name makes a folder. "
    "xdlc computes a dynamic dimension from the size of the raw file; an input with several dynamic "
    "dimensions needs .npy files. For several graphs, pass a list for each graph with commas between the "
    "lists, or __ to omit a graph. xdlc then writes to OUTPUT/<graph>/Result_N.",
)
@params.source(
    "DLC",
    "Run this DLC or source model; xdlc converts a source model in memory. With --runtime htp, you can also "
    "pass a context binary.",
    "--container",
    "--input-dlc",
)
@params.listing("Run the samples of this list, one on each line, or of this folder.")
@click.option(
    "--samples",
    type=params.FilePath(path_type=Path),
    metavar="FOLDER|LIST",
    help="Convert, quantize, prepare and measure a source model with these calibration samples. xdlc writes "
    "the files to the folder of --output.",
)
@params.svg("the steps from model to result", "--samples")
@flags_of(QuantizeOptions, without=options_of(QuantizeOptions).keys() - set(_QUANTIZING))
@params.INPUT_DIMS
@params.output(
    "Write the results to this folder.",
    "--output-dir",
    name="output_dir",
    metavar="FOLDER",
    default=Path("output"),
    show_default=True,
)
@click.option(
    "--runtime",
    type=click.Choice(module_names("xdlc.api.runtimes")),
    default="cpu",
    show_default=True,
    help="Choose the runtime. cpu: onnxruntime; htp: the vendor's emulation of the DSP; aip: the DLC's AIP "
    "record with HTA sections.",
)
@flags_of(
    RunOptions,
    without=("outputs", "quantized", "plain", "threads", "kernels", "notify", *options_of(KernelOptions)),
)
@click.option(
    "--enable-init-cache",
    is_flag=True,
    help="Store the cache that xdlc compiles, and use this cache in later runs (runtime htp only).",
)
@click.option(
    "--storage-dir",
    type=params.OUTPUT_FILE,
    help="Keep the caches of --enable-init-cache in this folder.  [default: the folder of --output]",
)
@params.NATIVE
@click.option(
    "--use-native-output-files",
    "native_out",
    is_flag=True,
    help="Write results in the data types of the tensors, to files named <tensor>_native.raw.",
)
@click.option(
    "--native-input-tensor-names",
    "native_names",
    metavar="GRAPH:T1,T2;..",
    help="Read the raw files of these inputs in the inputs' data types instead of float32. This flag "
    "replaces --use-native-input-files.",
)
@click.option(
    "--set-output-tensors",
    "tensors",
    multiple=True,
    metavar="T1,T2",
    help="Also write these tensors. A cache can write only tensors that you named when you compiled the "
    "cache; HTA sections can write only tensors between sections. 'GRAPH T1,T2' selects a graph.",
)
@click.option(
    "--set-output-layers",
    "layers",
    multiple=True,
    metavar="OP1,OP2",
    help="Also write the outputs of these ops.",
)
@click.option(
    "--set-unconsumed-as-output", "unread", is_flag=True, help="Also write tensors that no op reads."
)
@click.option("--dump-all-tensors", "every", is_flag=True, help="Write every tensor that an op computes.")
@all_of(*params.dimension_flags)
@click.option(
    "--num-inferences",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="Run this many inferences. xdlc repeats or shortens the list, and writes the results of each sample "
    "once.",
)
@click.option(
    "--duration",
    type=params.NumberRange(0, 86_400, min_open=True),
    metavar="SECONDS",
    help="Repeat the list for this many seconds.",
)
@click.option(
    "--keep-num-outputs",
    type=click.IntRange(0),
    metavar="N",
    help="Write the results of at most this many samples.  [default: all]",
)
@click.option(
    "--profiling-level",
    "level",
    type=click.Choice(["off", "basic", "moderate", "detailed"]),
    default="off",
    show_default=True,
    help="Measure times on this machine, print the times and write profile.csv. basic: the time of each "
    "inference; moderate and detailed: also the time of each op (runtime cpu only).",
)
@kernel_flags
def main(
    source: Path,
    input_list: Path | None,
    samples: Path | None,
    svg: Path | None,
    output_dir: Path,
    runtime: str,
    input_names: tuple[str, ...],
    input_dimensions: tuple[str, ...],
    **options: Any,
) -> None:
    """Run a DLC on files, or convert, quantize and measure a source model.

    xdlc runs the DLC once for each line of the input list, and writes the outputs as files. With --samples,
    xdlc converts, quantizes, prepares and measures a source model, and prints the model's accuracy, cost, and
    the processor of each op.
    """
    quantizing = params.stated({name: options.pop(name) for name in _QUANTIZING})
    if quantizing and samples is None:
        flags = ", ".join(param.opts[-1] for param in params.typed(quantizing))
        raise UsageError(f"{flags} requires --samples", fix="add --samples, or use xdlc convert and quantize")
    if svg is not None and samples is None:
        raise UsageError("--svg requires --samples", fix="omit --svg, or add --samples")
    if samples is not None:
        if wrong := params.typed({*options, "input_list", "runtime", "input_names"} - {"soc"}):
            raise UsageError(f"{wrong[0].opts[-1]} has no effect with --samples", fix="omit one flag")
        soc = options["soc"] or DEFAULT_SOC
        _all_steps(source, svg, samples=samples, soc=soc, folder=output_dir, **quantizing)
        return
    if input_list is None:
        raise UsageError("no samples are named", fix="add -l FILE; for a source model, add --samples FILE")
    dims = params.dims_of(input_names, input_dimensions)
    options["several"] = bool(dims) or ("," in str(input_list) and not os.path.isfile(input_list))
    chosen = _checked(runtime, options)
    if options["level"] in _PER_OP and not chosen.times_ops:
        notice(
            f"xdlc replaces --profiling-level {options['level']} by basic: the emulation of a "
            "device measures no op times"
        )
        options["level"] = "basic"
    from xdlc import api
    from xdlc.api.debugging import framework_of
    from xdlc.ir import Model
    from xdlc.ir.files import check_readable
    from xdlc.opdefs.control_flow import outer_graphs
    from xdlc.prepare.edit import edit
    from xdlc.runtime.htp.context_binary import described
    from xdlc.runtime.input_list import lists_of

    check_readable(source)
    is_source = framework_of(str(source)) is not None
    if is_source:
        notice(f"xdlc converts {source} in memory, without quantization; use --samples to quantize it too")
    with bars.steps("reading"):
        stored = api.convert(source, notify=note) if is_source else api.load(source)
        model = api.executable(stored, str(source))
        if not stored.graphs and "graph" in chosen.options and chosen.compiles:
            if dims or options["enable_init_cache"]:
                fix = "pass the DLC that the cache came from"
                raise UsageError("xdlc cannot resize a cache or add caches to it", where=str(source), fix=fix)
            _, ports = described(stored, options["soc"])
            model = Model(ports, stored.metadata, stored.records)
        name = options.pop("graph")
        callable_graphs = outer_graphs(model) if name is None else [model.graph_named(name)]
        lists = lists_of(input_list, [graph.name for graph in callable_graphs])
        model = edit(model, input_dimensions=dims) if dims else model
        if [*lists.values()] == [input_list] and name is None and "graph" in chosen.options:
            lists = {_fitting(model, input_list, options): input_list}
    if options["enable_init_cache"] and not chosen.compiles:
        notice("--enable-init-cache has no effect, because the CPU needs no cache")
    elif options["storage_dir"] is not None and not options["enable_init_cache"]:
        notice("--storage-dir has no effect without --enable-init-cache")
    named = {name: options.pop(name) for name in options_of(KernelOptions)}
    with api.kernels(model, **named) as kernels:
        folders = {} if [*lists.values()] == [input_list] else output_path.paths_of(lists, "graph")
        options |= {"source": source, "stored": stored, "kernels": kernels, "running": lists.keys()}
        facts(
            runs=[
                _run(model.with_main(graph), path, output_dir / folders.get(graph, ""), chosen, options)
                for graph, path in lists.items()
            ]
        )
        for unused in kernels.unused():
            notice(f"{unused} is unused: it implements no op of the model")


def _all_steps(source: Path, svg: Path | None, **arguments: Any) -> None:
    """Make a prepared DLC of a source model; print its files and a line of figures."""
    from xdlc import api
    from xdlc.ir.files import replace_text
    from xdlc.page.pictures import pipeline

    if svg is not None:
        output_path.check_target(svg)
    phrase = partial(in_command, command_line())
    with bars.steps("converting") as step:
        built = api.build(source, **arguments, notify=note, step=step, phrase=phrase)
    result(**built.as_dict())
    if svg is not None:
        replace_text(svg, pipeline(built.as_dict()))
    pictures = [str(svg)] if svg is not None else []
    for path in (*(stage.path for stage in built.stages[1:]), built.report, *pictures):
        written(Path(path))
    show(str(built))


def _checked(name: str, options: Mapping[str, Any]) -> Runtime:
    """Return the runtime; refuse options that it does not have."""
    from xdlc import api

    chosen = api.runtime_with(name, params.stated(options))
    if options["validate"] and options["mode"] == "always_generate_new":
        raise UsageError(
            "--validate-cache requires a cache, but always_generate_new uses no cache", fix="omit one flag"
        )
    if chosen.name == "aip" and options["several"]:
        raise UsageError(
            "--use-aip runs only the main graph, with its compiled dimensions",
            fix="omit --use-aip, or omit --input-dimensions and pass one input list",
        )
    if options["native_names"] and options["native"]:
        raise UsageError(
            "--native-input-tensor-names and --use-native-input-files exclude each other",
            fix="omit one flag",
        )
    return chosen


def _fitting(model: Model, listing: Path, options: Mapping[str, Any]) -> str:
    """Return the name of the graph whose inputs have the sizes of a list's files."""
    from xdlc.api.execution import alternatives
    from xdlc.errors import XdlcError
    from xdlc.runtime.states import next_values

    def fits(graph: Graph) -> bool:
        try:
            _read(model.with_main(graph.name), listing, options, next_values(model))
        except XdlcError:
            return False
        return True

    graphs = alternatives(model)
    fitting = next((graph for graph in graphs if fits(graph)), graphs[0]) if len(graphs) > 1 else model.main
    if len(graphs) > 1:
        show(f"graph: {fitting.name}")
    return fitting.name


def _read(model: Model, listing: Path, options: Mapping[str, Any], optional: Collection[str]) -> InputList:
    """Return the inferences of a list for the main graph."""
    from xdlc.prepare.edit.outputs import named_inputs
    from xdlc.runtime.input_list import read_input_list

    native = options["native"] or named_inputs(model, options["native_names"] or "")
    return read_input_list(listing, model.main, native=native, optional=optional)


def _run(
    model: Model, listing: Path, target: Path, chosen: Runtime, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Run the main graph on the inferences of a list; return facts about it."""
    from xdlc.ir.files import replace_text
    from xdlc.prepare.edit.outputs import extra_outputs
    from xdlc.quant.sample_faults import FEW, misfits
    from xdlc.runtime.profile import Profiler
    from xdlc.runtime.states import next_values
    from xdlc.worker.executors import open_threads

    native = options["native_out"]
    inputs = _read(model, listing, options, next_values(model))
    for fault in misfits(model.main, (inference.feeds() for inference in inputs.inferences[:FEW])):
        warn(f"samples: {fault.text}; {fault.fix}")
    for name, file in inputs.inferences[0].lines[0].items():
        if file.cast:
            notice(f"input {name!r} gets the {file.cast} numbers of {file.path} as floats, without scaling")
    extra = extra_outputs(
        model,
        [*options["tensors"], inputs.tensors],
        [*options["layers"], inputs.ops],
        unread=options["unread"],
        every=options["every"],
        running=options["running"],
    )
    names = [*(tensor.name for tensor in model.main.outputs), *extra]
    files = output_path.paths_of(names, "output", "_native.raw" if native else ".raw")
    count, seconds, most = (options[name] for name in ("num_inferences", "duration", "keep_num_outputs"))
    with ExitStack() as stack:
        step = stack.enter_context(bars.steps("building the network", "inference"))
        profiler = stack.enter_context(Profiler())
        session = stack.enter_context(_session(model, target, chosen, extra, profiler, options))
        for line in chosen.describe(session):
            show(line)
        stack.enter_context(output_path.folder_for(target / "Result_0"))
        at_a_time = chosen.at_a_time if options["level"] == "off" else 1

        def run(inference: Inference) -> tuple[Inference, dict[str, Any]]:
            return inference, profiler.run(session.run, inference.feeds(), native=native)

        done = number = 0
        begin = time.monotonic()
        workers = stack.enter_context(open_threads(at_a_time, partial(chosen.end, session)))
        tasks = (partial(run, inference) for inference in inputs.repeated(count, seconds))
        runs = workers.in_order(tasks, "net-run")
        for number, (inference, results) in enumerate(runs, 1):
            if number == 1 and chosen.compiles and not seconds:
                _forecast((time.monotonic() - begin) / at_a_time, count or len(inputs))
            for index in range(inference.results if number <= len(inputs) else 0):
                if most is None or done < most:
                    part = None if inference.batch is None else (index, inference.batch)
                    output_path.write(target / f"Result_{done}", files, results, part, native)
                    done += 1
            step("running", number, 0 if seconds else count or len(inputs))
        profile = profiler.result()
    if options["level"] != "off":
        with output_path.folder_for(target / "profile.csv"):
            replace_text(target / "profile.csv", profile.csv())
        if not chosen.times_ops:
            show("these are times of the emulation on this machine, not of a device:")
        for line in str(profile).splitlines():
            show(line)
    repeated = f"; {number} inferences repeat the {len(inputs)} samples" if number > len(inputs) else ""
    show(
        f"written: {target}/Result_0 to Result_{done - 1}{repeated}" if done else f"nothing written{repeated}"
    )
    return {
        "graph": model.main.name,
        "runtime": chosen.name,
        "folder": str(target),
        "results": done,
        "inferences": number,
        "host_milliseconds": 1e3 * profile.seconds,
    }


def _forecast(first: float, count: int) -> None:
    """Print a notice of the expected time if it is a minute or more.

    Args:
        first: Seconds of the first one.
    """
    minutes = first * count / 60
    if count > 1 and minutes >= 1:
        notice(f"{count} inferences take about {minutes:.0f} minute(s): emulation is slower than the DSP")


def _session(
    model: Model,
    target: Path,
    chosen: Runtime,
    extra: Sequence[str],
    profiler: Profiler,
    options: Mapping[str, Any],
) -> AbstractContextManager[Any]:
    from xdlc import api

    stated = params.stated(options).items()
    arguments = {name: value for name, value in stated if name in chosen.options} | {"outputs": extra}
    if "notify" in chosen.options:
        arguments["notify"] = notice
    if chosen.times_ops and options["level"] in _PER_OP:
        arguments["profiler"] = profiler
    mode = options["mode"] or "permissive"
    if chosen.compiles and options["enable_init_cache"] and mode != "always_generate_new":
        folder, fallback = options["storage_dir"] or target, bool(options["cpu_fallback"])
        model = api.with_stored_cache(model, folder, options["soc"], mode, extra, fallback, notice)
    if not options["stored"].graphs:
        arguments["graph"] = model.main.name
    model = options["stored"] if chosen.name == "aip" or not options["stored"].graphs else model
    return chosen.open(model, str(options["source"]), **arguments)
