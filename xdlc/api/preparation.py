"""Compilation of a model for HTP and HTA, and which devices can use the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast

from xdlc.api.models import executable, loaded
from xdlc.api.options import Names, Notify, PathLike, Step, given, keywords, verb
from xdlc.boundary.options import Numbers, Words
from xdlc.boundary.options import Options as BoundaryOptions
from xdlc.ir import Model

if TYPE_CHECKING:
    from xdlc.prepare.hta import PreparedHta
    from xdlc.prepare.htp import Prepared
    from xdlc.prepare.platform import Machine
    from xdlc.runtime.htp.cache_verdict import Verdict

Outputs: TypeAlias = Mapping[str, Sequence[str]] | Names


@verb
def prepare(
    model: Model | PathLike,
    socs: Sequence[str] = (),
    *,
    htp_archs: Sequence[str | int] = (),
    vtcm_override: int | None = None,
    optimization_level: int = 2,
    num_hvx_threads: int | None = None,
    htp_dlbc: bool = False,
    share_weights: bool = False,
    overwrite_cache_records: bool = False,
    partition: bool = False,
    set_output_tensors: Outputs = (),
    set_output_layers: Outputs = (),
    input_list: PathLike | None = None,
    use_float_io: bool = False,
    buffer_data_type: Mapping[str, str] | Names = (),
    input_dimensions: Mapping[str, Sequence[int]] | None = None,
    jobs: int | None = None,
    timeout: float = 1800,
    notify: Notify | None = None,
    step: Step | None = None,
    **boundary: Unpack[BoundaryOptions],
) -> Model:
    """Return a copy of the model with one compiled HTP cache for each SoC.

    Args:
        model: The model, or the path of a DLC.
        socs: SoC names such as ``sm8650``; none if ``htp_archs`` are given.
        htp_archs: Architectures such as ``v73`` instead: one cache each, which runs on all SoCs of it.
        vtcm_override: Vector memory in MB to plan for; default: all that the SoC has.
        optimization_level: 1 to 3; 3 compiles longest and makes the fastest graph.
        num_hvx_threads: Threads of the vector unit; default: all.
        htp_dlbc: Compress feature maps in memory.
        share_weights: Keep weights that SoCs have in common in records of their own; such caches run on
            devices only.
        overwrite_cache_records: Compile again where there is a cache already, whoever made it.
        partition: Compile the partitions that HTP supports where it does not support all ops; the CPU runs
            the rest.
        set_output_tensors: Tensors that become the outputs in place of the graph's own.
        set_output_layers: Ops whose outputs become those of the graph.
        input_list: An input list, of which the lines with names of ops (#) and tensors (%) are read.
        use_float_io: Make quantized inputs and outputs float32.
        buffer_data_type: Type by name of an input or output: ``float32``, ``fixedPoint8``, ``fixedPoint16``.
        input_dimensions: Other shapes, by input name.
        jobs: SoCs to compile at a time; default: one per processor.
        timeout: Seconds that one SoC may take.
        notify: Called with each notice, a line of text: caches that are kept or replaced, and why; with
            ``partition`` the ops that are left to the CPU, and why; default: the log.
        step: Called with the title of what is done, the number of SoCs finished, and of all.
        **boundary: Options for inputs and outputs by name, as of ``convert``.

    Raises:
        UsageError: If a SoC, an option, or a name in an option is not known.
        BackendError: If the vendor's package is missing, or its compiler refuses the model.
        PrepareError: If some SoCs failed; its ``model`` has the caches of the others.
    """
    options = {**given(prepare, locals()), **boundary}
    from xdlc.prepare.htp import prepare as prepare_htp

    return prepare_htp(_edited(model, socs, options), socs, **options)


def prepare_all(model: Model | PathLike, socs: Sequence[str] = (), **options: Any) -> Prepared:
    """Do what ``prepare`` does, with the same arguments, but return what failed beside what worked."""
    from xdlc.prepare.htp import prepare_all as prepare_all_htp

    return prepare_all_htp(_edited(model, socs, options), socs, **options)


@verb
def optimize(model: Model | PathLike, passes: Sequence[str]) -> Model:
    """Return a copy of a model with graph passes applied, in turn until none changes it.

    Args:
        model: The model, or the path of a DLC.
        passes: Names of passes; ``xdlc opt --list`` lists them.

    Raises:
        UsageError: If a name is no pass.
        ConstraintError: If a pass rejects a value of the graph.
    """
    from xdlc.prepare.edit import optimize as optimized

    return optimized(executable(model), passes)


@verb
def preprocess(
    model: Model | PathLike,
    name: str,
    *,
    encoding: Words | None = None,
    crop: str | Sequence[int] | None = None,
    resize: str | Sequence[Any] | None = None,
    mean: Numbers | None = None,
    scale: Numbers | None = None,
    layout: str | None = None,
    dtype: str | None = None,
) -> Model:
    """Return a copy of a model whose graph preprocesses one of its inputs, in the order of these options.

    Args:
        model: The model, or the path of a DLC.
        name: Name of the input.
        encoding: Colours that callers have, and those of the network: ``("nv12", "rgb")``.
        crop: Height and width that callers have, of which the centre is used; or top, left, height and width.
        resize: Height and width before resizing, and ``bilinear`` or ``nearest``.
        mean: What is subtracted, one number or one for each channel of the network: (x - mean) * scale.
        scale: What the difference is multiplied with, likewise.
        layout: Layout that callers have, like ``NHWC``.
        dtype: Type that callers have, like ``uint8``.

    Raises:
        UsageError: If a name or a value is not known.
        ConstraintError: If the input cannot be as requested.
    """
    options = given(preprocess, locals())
    from xdlc.prepare.edit import edit

    words = {"layout": "desired_input_layout"}
    boundary = {words.get(key, f"input_{key}"): {name: value} for key, value in options.items()}
    return edit(executable(model), boundary=cast("BoundaryOptions", boundary))


def _edited(model: Model | PathLike, socs: Sequence[str], options: dict[str, Any]) -> Model | PathLike:
    """Apply the options that edit the model, take them out of ``options``, and return the model."""
    from xdlc.converter.snpe.translate import has_layers
    from xdlc.prepare.edit import edit

    changes = {name: options.pop(name) for name in keywords(edit) if name in options}
    wanted = {name: options.pop(name) for name in BoundaryOptions.__annotations__ if name in options}
    changes["boundary"] = {name: value for name, value in wanted.items() if value}
    changes = {name: value for name, value in changes.items() if value}
    if changes or has_layers(loaded(model)):
        return edit(executable(model), **changes) if changes else executable(model)
    return model  # a path lets the compiler read the file itself


@verb
def prepare_hta(
    model: Model | PathLike,
    partitions: str | None = None,
    *,
    reorder: bool = False,
    soc: str | None = None,
    notify: Notify | None = None,
    step: Step | None = None,
) -> PreparedHta:
    """Return a quantized model with sections for the Hexagon Tensor Accelerator, and refused layers.

    Sections that were there before are replaced; what has been quantized stays so.

    Args:
        model: The model, or the path of a DLC.
        partitions: Ranges of layer ids for the accelerator, like ``0-11,177-215``; default: chosen.
        reorder: Execute layers in another order if it has fewer sections, or more work on the accelerator.
        soc: Name of the SoC that it is for, like ``sm8250``: an error if that has no HTA.
        notify: Called with each note on what was done, a line of text; warnings begin with ``warning: ``.
        step: Called with the title of what is done, the number of sections compiled, and of all.

    Raises:
        UsageError: If the ranges or an option are not valid.
        ConstraintError: If the model is not quantized.
    """
    from xdlc.prepare.hta import prepare as prepare_sections

    return prepare_sections(
        executable(model),
        partitions,
        reorder=reorder,
        soc=soc,
        records=loaded(model).records,
        notify=notify,
        step=step,
    )


@verb
def verdicts(
    model: Model | PathLike,
    device: str,
    *,
    outputs: Sequence[str] | None = None,
    mode: str = "permissive",
    sdk: str | None = None,
) -> list[Verdict]:
    """Return for each compiled HTP cache of a model whether a device can use it, and why not.

    Args:
        model: The model, or the path of a DLC.
        device: Name of the device's SoC, like ``sm8450``.
        outputs: Names of the required tensors; default: the graph's outputs.
        mode: ``permissive``: a cache runs; ``strict``: it uses the device fully.
        sdk: SDK of the device, like ``2.40``; default: that of the installed library.

    Raises:
        UsageError: If the SoC, an option or an output is not known.
        ConstraintError: If the device has no HTP.
    """
    from xdlc.runtime.htp.cache_verdict import verdicts as verdicts_of

    return verdicts_of(loaded(model), device, outputs=outputs, mode=mode, sdk=sdk)


@verb
def check_platform(runtimes: Sequence[str] | None = None, soc: str | None = None) -> Machine:
    """Return the capabilities of this machine, after trials of them.

    Args:
        runtimes: Names of the runtimes to try, out of ``cpu``, ``htp`` and ``aip``; default: all of them.
        soc: Name of the one SoC to list and to emulate; default: all, and one of each architecture.

    Raises:
        UsageError: If a runtime or the SoC is not known.
    """
    from xdlc.prepare import platform

    return platform.check_platform(platform.RUNTIMES if runtimes is None else runtimes, soc)
