"""``xdlc-net-run``: a DLC executed on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xdlc.cli import bars, params
from xdlc.cli.output_path import folder_for, storage_errors
from xdlc.cli.params import kernel_flags
from xdlc.cli.text import short as shortened
from xdlc.cli.tool import notice, show, tool
from xdlc.errors import UsageError, nearest_names

if TYPE_CHECKING:
    from xdlc.ir import Graph, Model

LONGEST_NAME = 255  # bytes, on the usual file systems
_RUNTIME_OF = {
    "soc": "htp",
    "cache_mode": "htp",
    "validate_cache": "htp",
    "enable_cpu_fallback": "htp",
    "use_aip": "cpu",
}


@tool(
    "xdlc-net-run",
    epilog="Result N of the list goes to OUTPUT_DIR/Result_N/<tensor>.raw, float32 unless native files "
    "are requested; a slash in a tensor's name makes a folder. A dynamic dimension of the DLC follows "
    "from the size of the input's raw file; inputs with several of them take .npy files, which state "
    "their shapes.",
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
@click.option(
    "--use_aip",
    is_flag=True,
    help="Run section by section, by the AIP record: HTA's as xdlc compiled them, others on the CPU.",
)
@click.option(
    "--soc",
    metavar="NAME",
    help="SoC that `--runtime htp` emulates.  [default: that of the first usable cache, or else sm8650]",
)
@click.option(
    "--cache_compatibility_mode",
    "cache_mode",
    type=click.Choice(["permissive", "strict", "always_generate_new"]),
    help="Usable caches of the DLC (htp only): those that run on the SoC, those that use it fully, or none.  "
    "[default: permissive]",
)
@click.option(
    "--validate_cache",
    is_flag=True,
    help="Fail instead of compiling the model if no cache is usable, with the reason for each (htp only).",
)
@click.option(
    "--enable_cpu_fallback",
    is_flag=True,
    help="Run on the CPU what the SoC's HTP refuses, instead of failing (htp only).",
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
    "--set_output_tensors",
    "wanted",
    callback=params.names,
    metavar="T1,T2",
    help="Tensors to write beside the graph's outputs: with a cache those that it was compiled for, with "
    "sections those between them.",
)
@click.option(
    "--loop_timeout",
    type=float,
    metavar="SECONDS",
    help="Time that each loop may take, at most 15.  [default: 2]",
)
@kernel_flags
def main(
    source: Path,
    input_list: Path,
    output_dir: Path,
    runtime: str,
    native_in: bool,
    native_out: bool,
    wanted: tuple[str, ...],
    udo_package_path: str | None,
    allow_embedded_kernels: bool | None,
    udo_timeout: float | None,
    **options: Any,
) -> None:
    """Run a DLC on inputs from files.

    Every line of the input list is one inference; its outputs are written as files.
    """
    _check(runtime, options)
    from xdlc import api
    from xdlc.runtime.input_list import read_input_list

    with bars.steps("reading"):
        model = api.executable(source)
        graph = model.main
        inputs = read_input_list(input_list, graph, native=native_in)
    extra = list(dict.fromkeys([*wanted, *inputs.tensors, *_outputs_of(graph, inputs.ops)]))
    files = _files([*(tensor.name for tensor in graph.outputs), *extra], native_out)
    with (
        bars.steps("building the network", "inference") as step,
        api.kernels(model, udo_package_path, bool(allow_embedded_kernels), udo_timeout) as kernels,
        _session(model, source, runtime, extra, options | {"kernels": kernels}) as session,
    ):
        for unused in kernels.unused():
            notice(f"nothing of {unused} is used: the model has no op that it offers")
        with folder_for(output_dir / "Result_0"):
            done = 0
            for number, inference in enumerate(inputs.inferences, 1):
                results = session.run(inference.feeds(), native=native_out)
                for index in range(inference.results):
                    folder = output_dir / f"Result_{done}"
                    part = None if inference.batch is None else (index, inference.batch)
                    _write(folder, files, results, part, native_out)
                    done += 1
                step("running", number, len(inputs))
    show(f"written: {output_dir}/Result_0 to Result_{done - 1}")


def _check(runtime: str, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if value is not None and value is not False and runtime != _RUNTIME_OF.get(name, runtime):
            param = next(each for each in main.params if each.name == name)
            flag, wanted = param.opts[0], f"--runtime {_RUNTIME_OF[name]}"
            raise UsageError(f"{flag} goes with {wanted}", fix=f"add {wanted}, or omit {flag}")
    if options["validate_cache"] and options["cache_mode"] == "always_generate_new":
        raise UsageError(
            "--validate_cache wants a cache, always_generate_new takes none", fix="omit one of the two"
        )


def _session(
    model: Model, source: Path, runtime: str, extra: Sequence[str], options: Mapping[str, Any]
) -> AbstractContextManager[Any]:
    if options["use_aip"]:
        from xdlc import api

        sections = api.sections(
            source, outputs=extra, loop_timeout=options["loop_timeout"], kernels=options["kernels"]
        )
        for line in sections.notices:
            notice(line)
        show(f"runs: {sections}")
        return sections
    if runtime == "cpu":
        from xdlc.runtime import CpuSession

        return nullcontext(
            CpuSession(model, outputs=extra, loop_timeout=options["loop_timeout"], kernels=options["kernels"])
        )
    from xdlc import api

    session = api.emulation(
        model,
        options["soc"],
        mode=options["cache_mode"] or "permissive",
        outputs=extra,
        validate=options["validate_cache"],
        cpu_fallback=options["enable_cpu_fallback"],
        notify=notice,
        name=str(source),
        loop_timeout=options["loop_timeout"],
        kernels=options["kernels"],
    )
    origin = f"from {session.record}" if session.record else "compiled now"
    parts = f", {session.partitions} partition(s), the rest on the CPU" if session.partitions else ""
    show(f"runs on: {session.soc}, {origin}{parts}")
    return session


def _outputs_of(graph: Graph, names: tuple[str, ...]) -> list[str]:
    ops = {op.name: op for op in graph.ops} if names else {}
    for name in names:
        if name not in ops:
            raise UsageError(f"graph {graph.name!r} has no op {name!r}", fix=nearest_names(name, ops) or None)
    return [tensor.name for name in names for tensor in ops[name].outputs]


def _files(tensors: Sequence[str], native: bool) -> dict[str, Path]:
    """Return the file of each tensor in a result folder.

    Raises:
        UsageError: If a name cannot be a file's, or two tensors would share a path.
    """
    files = {name: _file_name(name, native) for name in tensors}
    taken: dict[Path, str] = {}
    for name, file in files.items():
        if file in taken:
            raise _clash(taken[file], name)
        taken[file] = name
    for name, file in files.items():
        for folder in file.parents:
            if folder in taken:
                raise _clash(taken[folder], name)
    return files


def _clash(one: str, other: str) -> UsageError:
    return UsageError(
        f"the outputs {one!r} and {other!r} would be written to the same path",
        fix="rename one of them in the source model",
    )


def _file_name(tensor: str, native: bool) -> Path:
    """Return the file of a tensor in a result folder; its name is untrusted and must not lead out of it."""
    parts = [part for part in tensor.split("/") if part not in ("", ".")]
    if parts:
        parts[-1] += "_native.raw" if native else ".raw"
    too_long = any(len(part.encode()) > LONGEST_NAME for part in parts)
    if not parts or ".." in tensor.split("/") or "\0" in tensor or too_long:
        raise UsageError(
            f"the name of output {shortened(tensor)!r} cannot be a file name",
            fix="rename the output in the source model",
        )
    return Path(*parts)


def _write(
    folder: Path,
    files: Mapping[str, Path],
    results: Mapping[str, Any],
    part: tuple[int, int] | None,
    native: bool,
) -> None:
    import numpy as np

    real = np.dtype("<f4")
    for name, file in files.items():
        array = results[name]
        if part is not None and array.ndim and array.shape[0] == part[1]:
            array = array[part[0] : part[0] + 1]
        _write_file(folder / file, np.ascontiguousarray(array, None if native else real).tobytes())


def _write_file(target: Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    unfinished = target.with_name(f".{os.getpid()}.part")
    with folder_for(target), storage_errors(target):
        try:
            unfinished.write_bytes(content)
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
