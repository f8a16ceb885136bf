"""Quantization, compilation for HTP and HTA, and compatibility with devices."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from xdlc.api.models import executable, loaded
from xdlc.api.verbs import Array, verb
from xdlc.errors import UsageError
from xdlc.ir import Model
from xdlc.options import Notify, PathLike, Step, options_of, spell
from xdlc.options.graphs import BoundaryOptions, CompileOptions, EditOptions, Numbers, PrepareOptions, Words
from xdlc.options.quantizing import QuantizeOptions

if TYPE_CHECKING:
    from xdlc.prepare.hta import PreparedHta
    from xdlc.prepare.htp import Prepared
    from xdlc.prepare.htp.support_matrix import Support
    from xdlc.quant.report import Reporter
    from xdlc.runtime.htp.cache_verdict import Verdict


@verb
def quantize(
    model: Model | PathLike,
    samples: Iterable[Mapping[str, Array] | Array] | PathLike,
    *,
    report: Reporter | PathLike | None = None,
    report_list: Iterable[Mapping[str, Array] | Array] | PathLike | None = None,
    notify: Notify | None = None,
    step: Step | None = None,
    phrase: Callable[[str], str] = str,
    **options: Unpack[QuantizeOptions],
) -> Model:
    """Return a quantized copy of a model.

    The model is usually a float model.  With ``requantize``, xdlc quantizes a quantized model again.

    Args:
        model: The model, or the path of a DLC.
        samples: Calibration samples.  A sample is a mapping of input arrays by name, or an array for a model
            with one input.  A path names an input list, a folder, or an .npz or .npy file whose arrays have
            the samples along the first axis.  For graphs with the same weights, pass a mapping of samples
            by graph.
        report: Path of a report to write (``.html``, ``.json``, ``.csv``, or ``.svg`` for a picture), or a
            ``Reporter``.
        report_list: Samples to measure accuracy with, in any format of ``samples``.  xdlc does not calibrate
            with these samples.  Default: every fifth of ``samples``, with ranges from the other samples.
        notify: Called at the end with each note, a line of text.  Notes on lost accuracy begin with
            ``warning:``.  Default: xdlc writes the warnings to the log ``xdlc.quant``.
        step: Called as ``step(title, done, total)`` when a step begins or advances.  A ``total`` of 0 means
            that xdlc does not know the number of steps.
        phrase: Function that turns a note into the line for ``notify``.  By default, notes name options as
            keyword arguments.
        **options: Options of the quantizer.

    Raises:
        UsageError: If xdlc does not know an option, or a sample does not fit the model's inputs.
        ModelError: If weights or activations are NaN or infinite.
        ConstraintError: If the target does not support the widths of an op, or an output is below
            ``fail_below``.
        ContainerError: If the DLC is damaged.
        StorageError: If a file cannot be read or written.
    """
    from xdlc.quant import quantize as quantize_model

    return quantize_model(
        executable(model),
        samples,
        report=report,
        report_list=report_list,
        notify=notify,
        step=step,
        phrase=phrase,
        **options,
    )


@verb
def prepare(
    model: Model | PathLike,
    socs: Sequence[str] = (),
    *,
    notify: Notify | None = None,
    step: Step | None = None,
    **options: Unpack[PrepareOptions],
) -> Model:
    """Return a copy of the model with one compiled HTP cache for each SoC.

    Args:
        model: The model, or the path of a DLC.
        socs: SoC names such as ``sm8650``.  With ``htp_archs``, name no SoC.
        notify: Called with each notice, a line of text: kept and replaced caches, and the ops that
            ``partition`` leaves to the CPU, each with the reason.  Default: the log.
        step: Called as ``step(title, done, total)`` with the number of finished SoCs and of all SoCs.
        **options: Options of preparing.

    Raises:
        UsageError: If xdlc does not know a SoC, an option, or a name in an option.
        BackendError: If the vendor's package is missing, or its compiler refuses the model.
        PrepareError: If compiling for some SoCs failed.  ``model`` of the error has the other SoCs' caches.
        ContainerError: If the DLC is damaged.
        StorageError: If the DLC cannot be read.
    """
    from xdlc.prepare.htp import prepare as prepare_htp

    edited, compiling = _edited(model, options)
    return prepare_htp(edited, socs, notify=notify, step=step, **compiling)


@verb
def prepare_all(
    model: Model | PathLike,
    socs: Sequence[str] = (),
    *,
    step: Step | None = None,
    **options: Unpack[PrepareOptions],
) -> Prepared:
    """Prepare a model like ``prepare``; return the failures with the caches.

    Args:
        model: The model, or the path of a DLC.
        socs: SoC names such as ``sm8650``.  With ``htp_archs``, name no SoC.
        step: Called as ``step(title, done, total)`` with the number of finished SoCs and of all SoCs.
        **options: Options of preparing.

    Raises:
        UsageError: If xdlc does not know a SoC, an option, or a name in an option.
        BackendError: If the vendor's package is missing.
        StorageError: If the DLC cannot be read.
    """
    from xdlc.prepare.htp import prepare_all as prepare_all_htp

    edited, compiling = _edited(model, options)
    return prepare_all_htp(edited, socs, step=step, **compiling)


@verb
def export_binary(model: Model | PathLike, soc: str | None = None) -> bytes:
    """Return the cache of a model for a SoC as the bytes of a context binary.

    QNN applications load context binaries.

    Args:
        model: The prepared model, or the path of a DLC.
        soc: Name of the SoC.  Default: the SoC of the model's only cache.

    Raises:
        UsageError: If the model has no cache for the SoC, or has several caches and you name no SoC.
        ContainerError: If the cache is damaged, or other records of the DLC hold its weights.
        StorageError: If the DLC cannot be read.
    """
    from xdlc.runtime.htp.context_binary import binary_of

    return bytes(binary_of(loaded(model), soc).content())


@verb
def export_epcontext(
    model: Model | PathLike, folder: PathLike, soc: str | None = None, *, embed_context: bool = False
) -> tuple[Path, ...]:
    """Write the cache of a model as an ONNX model for each graph; return the paths.

    An ONNX model has one EPContext node, which onnxruntime's QNN provider runs.  The cache is a file next to
    the models.

    Args:
        model: The prepared model, or the path of a DLC or a context binary.  xdlc names the files after the
            model.
        folder: Folder for the files.
        soc: Name of the SoC.  Default: the SoC of the model's only cache.
        embed_context: Put the cache into each ONNX model, up to 2 GiB.

    Raises:
        UsageError: If the model has no cache for the SoC, or has several caches and you name no SoC.
        ConstraintError: If the cache has partitions with CPU ops between them.
        ContainerError: If the cache is damaged, or other records of the DLC hold its weights.
        StorageError: If the DLC cannot be read, or a file cannot be written.
    """
    from xdlc.runtime.export.epcontext import export_epcontext as export

    stem = "model" if isinstance(model, Model) else Path(model).stem
    return export(loaded(model), Path(folder), stem, soc, embed=embed_context)


@verb
def optimize(model: Model | PathLike, passes: Sequence[str]) -> Model:
    """Return a copy of a model, rewritten by graph passes.

    xdlc repeats the passes until the graph stays equal.

    Args:
        model: The model, or the path of a DLC.
        passes: Names of passes; ``xdlc opt --list`` lists them.

    Raises:
        UsageError: If a name is not a pass.
        ConstraintError: If a pass rejects a value of the graph.
    """
    from xdlc.prepare.edit import optimize as optimized

    return optimized(executable(model), passes)


@verb
def link(
    models: Sequence[Model | PathLike], names: Sequence[str | None] = (), *, notify: Notify | None = None
) -> Model:
    """Return a model with the graphs of several models.

    If you save the model, the DLC stores equal weights of the graphs once.

    Args:
        models: Models, or paths of DLCs.  The first graph of the first model becomes the main graph.
        names: A graph name for each model, in order.  A None or missing entry keeps the name.  xdlc adds
            the shapes of inputs to equal names, or the file names if the shapes are equal.
        notify: Called with each notice, a line of text: new names, and dropped parts.  Default: the log.

    Raises:
        UsageError: If you pass fewer than two models or too many names, or if two graphs have one name.
        ConstraintError: If two models have different inputs, outputs or UDOs with the same name.
        XdlcError: If xdlc cannot read a DLC; ``load`` lists the errors.
    """
    from xdlc.prepare.edit import link as linked

    if len(models) < 2 or len(names) > len(models):
        problem = f"you passed {len(models)} model(s) and {len(names)} name(s)"
        raise UsageError(problem, where="link", fix="pass two models or more, and at most one name for each")
    places = [
        f"model {number}" if isinstance(each, Model) else os.fspath(each)
        for number, each in enumerate(models)
    ]
    places = [
        place if places.count(place) == 1 else f"{place} ({number})" for number, place in enumerate(places)
    ]
    paths = {place: each for place, each in zip(places, models, strict=True) if not isinstance(each, Model)}
    return linked(
        {place: executable(each) for place, each in zip(places, models, strict=True)},
        {place: name for place, name in zip(places, names, strict=False) if name is not None},
        stems={place: Path(path).stem for place, path in paths.items()},
        notify=notify or logging.getLogger(__name__).warning,
    )


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
    """Return a copy of a model whose graph preprocesses one of its inputs.

    The graph runs the steps in the order of the arguments.

    Args:
        model: The model, or the path of a DLC.
        name: Name of the input.
        encoding: Colours that callers feed, and colours of the network: ``("nv12", "rgb")``.
        crop: Height and width of the caller's images; the network gets the centre of each image.  Four
            numbers: top row and left column of the part for the network, then height and width of the images.
        resize: Height and width of the caller's images before resizing, and ``bilinear`` or ``nearest``.
        mean: Number to subtract, or a number for each channel of the network: ``(x - mean) * scale``.
        scale: Number to multiply by after subtracting the mean, or a number for each channel of the network.
        layout: Layout that callers feed, like ``NHWC``.
        dtype: Data type that callers feed, like ``uint8``.

    Raises:
        UsageError: If xdlc does not know a name or a value.
        ConstraintError: If a step does not fit the input's shape, layout or data type.
        ContainerError: If the DLC is damaged.
        StorageError: If the DLC cannot be read.
    """
    from xdlc.prepare.edit import edit

    ports = {
        "input_encoding": encoding,
        "input_crop": crop,
        "input_resize": resize,
        "input_mean": mean,
        "input_scale": scale,
        "desired_input_layout": layout,
        "input_dtype": dtype,
    }
    boundary = {option: {name: value} for option, value in ports.items() if value is not None}
    return edit(executable(model), boundary=cast("BoundaryOptions", boundary))


def _edited(model: Model | PathLike, options: PrepareOptions) -> tuple[Model, dict[str, Any]]:
    """Return the model after the edits that options request, and the unused options.

    They have the path of a model that no option edits.
    """
    from xdlc.converter.snpe.translate import has_layers
    from xdlc.prepare.edit import edit

    changes = {name: value for name, value in _part(EditOptions, options).items() if value}
    boundary = {name: value for name, value in _part(BoundaryOptions, options).items() if value}
    compiling = _part(CompileOptions, options)
    if boundary:
        changes["boundary"] = boundary
    edited = source = loaded(model)
    if changes or has_layers(source):
        edited = executable(source, None if isinstance(model, Model) else os.fspath(model))
        edited = edit(edited, **changes) if changes else edited
    elif source.graphs and not isinstance(model, Model):
        compiling["path"] = model
    if not isinstance(compiling.get("verify", True), bool):
        compiling["verify"] = _first_sample(compiling["verify"], edited)
    return edited, compiling


def _first_sample(source: Iterable[Any] | PathLike, model: Model) -> Mapping[str, Array]:
    """Return the first of the samples that verify caches."""
    from xdlc.quant.samples import read_samples
    from xdlc.runtime.cpu import feeds_of
    from xdlc.runtime.states import with_first_values

    states = model.metadata.get("states", {})
    for sample in read_samples(source, model.main, optional=states):
        return feeds_of(model.main, with_first_values(model.main, states, sample))
    raise UsageError("the list has no samples", where=spell("verify"), fix="add a sample", code="XD205")


def _part(mapping: type, options: PrepareOptions) -> dict[str, Any]:
    """Return the options that a typed mapping has."""
    return {name: value for name, value in options.items() if name in options_of(mapping)}


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
    """Return a quantized model with sections for HTA, and the layers that HTA refuses.

    New sections replace old sections; quantized tensors stay unchanged.

    Args:
        model: The model, or the path of a DLC.
        partitions: Ranges of layer ids for the accelerator, like ``0-11,177-215``.  Default: xdlc chooses.
        reorder: Execute layers in another order if that saves sections or gives the accelerator more work.
        soc: Name of a SoC with HTA, like ``sm8250``.
        notify: Called with each note, a line of text.  Warnings begin with ``warning:``.
        step: Called as ``step(title, done, total)`` with the number of compiled sections and of all sections.

    Returns:
        ``model``, the ``sections`` for HTA, the layers that HTA refuses (``rejected``), and ``problems``.

    Raises:
        UsageError: If the ranges or an option are not valid, or the SoC has no HTA.
        ConstraintError: If the model is not quantized.
        ContainerError: If the DLC is damaged.
        StorageError: If the DLC cannot be read.
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
    """Return whether a device can use each cache of a model, with the reason.

    Args:
        model: The model, or the path of a DLC.
        device: Name of the device's SoC, like ``sm8450``.
        outputs: Names of the tensors that you need.  Default: the graph's outputs.
        mode: ``permissive`` accepts each cache that runs; ``strict`` only accepts a cache that uses the whole
            device.
        sdk: SDK of the device, like ``2.40``.  Default: the SDK of the installed library.

    Returns:
        A verdict for each cache.  ``usable`` is true if the device can use the cache; ``failed`` lists the
        broken rules.

    Raises:
        UsageError: If xdlc does not know the SoC, an option or an output.
        ConstraintError: If the device has no HTP.
        ContainerError: If the DLC is damaged.
        StorageError: If the DLC cannot be read.
    """
    from xdlc.runtime.htp.cache_verdict import verdicts as verdicts_of

    return verdicts_of(loaded(model), device, outputs=outputs, mode=mode, sdk=sdk)


@verb
def support_matrix(
    model: Model | PathLike,
    libraries: Iterable[PathLike] | None = None,
    socs: Iterable[str] | None = None,
    *,
    timeout: float = 600,
) -> list[Support]:
    """Return the ops that each library of the vendor supports for each SoC.

    Args:
        model: The model, or the path of a DLC.
        libraries: Folders of SDKs or of onnxruntime-qnn.  Default: the library in use.
        socs: Names of SoCs.  Default: a SoC of each HTP architecture.
        timeout: Stop a library after this many seconds.

    Raises:
        UsageError: If xdlc does not know a SoC.
        BackendError: If you name no library and none is in use.
        StorageError: If the file cannot be read.
    """
    from xdlc.prepare.htp.support_matrix import support_matrix as verdicts_of
    from xdlc.runtime.htp.library import library_folder
    from xdlc.targets import find_soc, one_of_each

    chosen = [find_soc(name) for name in socs] if socs is not None else list(one_of_each())
    folders = [Path(folder) for folder in libraries] if libraries is not None else [library_folder()]
    where = "model" if isinstance(model, Model) else str(model)
    return list(verdicts_of(executable(model), folders, chosen, timeout=timeout, name=where))
