"""The Python interface: the tools' verbs, with the tools' flags as options of the same names."""

from __future__ import annotations

import logging
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from xdlc.errors import ContainerError, UsageError, nearest_names, raise_all
from xdlc.ir import Model

if TYPE_CHECKING:
    from xdlc.converter.report import Report
    from xdlc.opdefs.custom import CustomOps
    from xdlc.prepare.hta import PreparedHta
    from xdlc.prepare.htp import Prepared
    from xdlc.prepare.platform import Machine
    from xdlc.runtime.htp.session import HtpSession
    from xdlc.runtime.htp.verdict import Verdict
    from xdlc.runtime.sections import SectionSession
    from xdlc.runtime.udo import Kernels
    from xdlc.udo.config import Converted

Array: TypeAlias = Any  # numpy.ndarray of any dtype
PathLike: TypeAlias = "str | os.PathLike[str]"
MAX_EXTENT = 2**32 - 1
KERNEL_OPTIONS = ("udo_package_path", "allow_embedded_kernels", "udo_timeout")


def convert(path: PathLike, input_dims: Mapping[str, Sequence[int]] | None = None, **options: Any) -> Model:
    """Return a framework model as a model of QNN operations.

    Inputs and outputs keep the source model's names, layout and datatypes.

    Args:
        path: An ONNX file.
        input_dims: Shapes by input name; needed where the file leaves an extent open.
        **options: Flags of ``xconv-onnx-to-dlc`` under their names, and ``tell``, which is called with each
            notice.

    Returns:
        The model; its weights stay in the source file until they are used.

    Raises:
        UsageError: If an option or an input name is not known.
        ModelError: If the file is not a valid model.
        UnsupportedOp: If operations cannot be mapped; all of them are listed.
        StorageError: If the file cannot be read.
    """
    from xdlc.converter.onnx import convert as convert_onnx

    with _custom_ops("convert", convert_onnx, options) as custom:
        return convert_onnx(path, input_dims=_checked_dims(input_dims), custom=custom, **options)


def check(
    path: PathLike,
    target: str | None = None,
    input_dims: Mapping[str, Sequence[int]] | None = None,
    **options: Any,
) -> Report:
    """Return what would become of a framework model: its problems, its nodes, its ops.

    Nothing is written, and problems of the model are not raised but listed, all of them.

    Args:
        path: An ONNX file.
        target: Name of a SoC that is asked whether it takes each op of the converted model; the answer
            is that of the vendor's library where it is installed, else of xdlc's own tables.
        input_dims: Shapes by input name.
        **options: Flags of ``xconv-onnx-to-dlc`` under their names.

    Raises:
        UsageError: If an option, an input name or the SoC is not known.
        ModelError: If the file is no model of its format.
        StorageError: If the file cannot be read.
    """
    from xdlc.converter.onnx import convert as convert_onnx
    from xdlc.converter.onnx.check import check as check_onnx

    with _custom_ops("check", convert_onnx, options) as custom:
        dims = _checked_dims(input_dims)
        return check_onnx(path, target=target, input_dims=dims, custom=custom, **options)


def _custom_ops(
    verb: str, converter: Callable[..., Any], options: dict[str, Any]
) -> AbstractContextManager[CustomOps]:
    """Take the options that name operations of users out of ``options``, and return these operations."""
    from xdlc.udo.sources import opened

    own = _keywords(opened)
    if "custom" in options:
        raise UsageError(
            f"{verb} has no option 'custom'", fix="name configurations by udo_config_paths, plugins by plugin"
        )
    _check_options(verb, converter, options, more=own)
    shared = _keywords(converter)
    given = {name: options[name] for name in own if name in options}
    for name in own:
        if name not in shared:
            options.pop(name, None)
    return opened(**given)


def draft_udo_config(
    path: PathLike,
    target: PathLike = "-",
    *,
    package_name: str = "MyOps",
    input_dims: Mapping[str, Sequence[int]] | None = None,
    udo_config_paths: Sequence[PathLike] = (),
    form: str = "",
    same_shapes: bool = False,
) -> Converted:
    """Return a draft of definitions for the operators of a model that nothing covers; nothing is written.

    Args:
        path: An ONNX file.
        target: Where the draft is to be written: a file, a folder, or ``-`` for standard output.
        package_name: Name of the package.
        input_dims: Shapes by input name.
        udo_config_paths: Configurations that there are already.
        form: ``xml`` or ``json``; default: as the target's name ends, or else XML.
        same_shapes: Whether outputs whose shape the model does not state in full get that of the first input.

    Raises:
        UsageError: If every operator is covered.
        UnsupportedOp: If an operator takes or gives what no definition can say; all of them are listed.
        ModelError: If the file is not a valid model, or a name cannot stand in a definition.
        StorageError: If the file cannot be read.
    """
    from xdlc.converter.onnx.uncovered import uncovered
    from xdlc.udo.config.converting import drafted
    from xdlc.udo.custom_ops import custom_ops

    known = custom_ops(udo_config_paths)
    nodes, others = uncovered(path, input_dims=_checked_dims(input_dims), custom=known)
    return drafted(nodes, others, path, target, package=package_name, form=form, same_shapes=same_shapes)


def load(path: PathLike) -> Model:
    """Return the model that a DLC holds; weights are read when they are used.

    Raises:
        StorageError: If the file cannot be read.
        ContainerError: If it is not a DLC, or a damaged one.
    """
    from xdlc.container import load as load_container

    return load_container(path)


def save(
    model: Model, path: PathLike, version: str = "4.1", tell: Callable[[str], None] | None = None
) -> None:
    """Write a model as a DLC; an existing file is replaced in one step.

    Args:
        model: The model.
        path: The file.
        version: ``4.1``; ``4.0`` for one that more viewers read, up to 2 GiB; ``3`` or ``3.0`` for layers of
            SNPE 1, into which QNN operations are translated.
        tell: Called with each note on what was done: a line of text.

    Raises:
        UsageError: If the version is another.
        UnsupportedOp: If format 3 has no form for something; all of it is listed.
        ContainerError: If something of the model has no form in a DLC of this version.
        StorageError: If the file cannot be written; an existing file is left as it was.
    """
    from xdlc.container.storage import LAYERS
    from xdlc.converter.snpe import foreign, has_layers, to_layers

    written = model
    if version in LAYERS and not has_layers(model):
        written = to_layers(model)
        unknown = foreign(written)
        if unknown and tell is not None:
            types = ", ".join(sorted({op.type for op in unknown}))
            tell(
                f"{len(unknown)} of {len(written.main)} layers are none of SNPE 1 and only xdlc reads them: "
                f"no file of SNPE 1 is known that shows its layer for {types}"
            )
        if "aip.metadata0" in written.records and tell is not None:
            tell(
                f"HTA sections count layers as format 3 does, which begins with {len(written.main.inputs)} "
                "Input layer(s): their ids are not those of the operations"
            )
    written.save(path, version=version)


def quantize(
    model: Model | PathLike, samples: Iterable[Mapping[str, Array] | Array] | PathLike, **options: Any
) -> Model:
    """Return a quantized copy of a float model.

    Args:
        model: The model, or the path of a DLC.
        samples: Input arrays by name, one mapping per calibration sample, read in order; arrays will do
            for a model with one input.  Or the path of an .npz file with an array for each input, of an
            .npy file for the only one, both with samples along the first axis, or of an input list.
        **options: Flags of ``xdlc-quant`` under their names: ``weights_bitwidth=8``, ``act_bitwidth=8``...

    Raises:
        UsageError: If an option is not known, or a sample does not fit the model's inputs.
    """
    from xdlc.quant import quantize as quantize_model

    return quantize_model(executable(model), samples, **options)


def export_encodings(model: Model | PathLike, path: PathLike, version: str = "1.0.0") -> Path:
    """Write the encodings of a quantized model as JSON, under the names of the source, and return the path.

    What is written can be given to ``quantize`` as ``quantization_overrides``.

    Args:
        model: The quantized model, or the path of a DLC.
        path: The file.
        version: Form: the vendor's and AIMET's 0.4.0 to 0.6.1, or AIMET's 1.0.0 and 2.0.0.

    Raises:
        UsageError: If there is no such version, or it has no form for an encoding.
        StorageError: If the file cannot be written.
    """
    from xdlc.quant.overrides import save_encodings

    return save_encodings(executable(model), path, version)


def prepare(model: Model | PathLike, socs: Sequence[str] = (), **options: Any) -> Model:
    """Return a copy of the model with one compiled HTP cache for each SoC.

    Args:
        model: The model, or the path of a DLC.
        socs: SoC names such as ``sm8650``; none if ``htp_archs`` are given.
        **options: Flags of ``xdlc-graph-prepare`` under their names: ``vtcm_override=4``,
            ``set_output_tensors=["a"]``...

    Raises:
        UsageError: If a SoC, an option, or a name in an option is not known.
        BackendError: If the vendor's package is missing, or its compiler refuses the model.
    """
    from xdlc.prepare.htp import prepare as prepare_htp

    return prepare_htp(_to_prepare(model, socs, options), socs, **options)


def prepare_all(model: Model | PathLike, socs: Sequence[str] = (), **options: Any) -> Prepared:
    """Do what ``prepare`` does, but return what failed beside what worked.

    Raises:
        UsageError: If a SoC, an option, or a name in an option is not known.
        BackendError: If the vendor's package is missing.
    """
    from xdlc.prepare.htp import prepare_all as prepare_all_htp

    return prepare_all_htp(_to_prepare(model, socs, options), socs, **options)


def _to_prepare(model: Model | PathLike, socs: Sequence[str], options: dict[str, Any]) -> Model | PathLike:
    """Take the options that change the model out of ``options`` and return the model so changed."""
    from xdlc.prepare.edit import edit
    from xdlc.prepare.htp import prepare_all as prepare_all_htp

    changes = _keywords(edit)
    _check_options("prepare", prepare_all_htp, options, more=changes)
    if isinstance(socs, str):
        raise UsageError(f"socs is the string {socs!r}", fix=f"give a list: socs=[{socs!r}]")
    given = {name: options.pop(name) for name in changes if name in options}
    given = {name: value for name, value in given.items() if value}
    return edit(executable(model), **given) if given else preparable(model)


def prepare_hta(model: Model | PathLike, partitions: str | None = None, **options: Any) -> PreparedHta:
    """Return a quantized model with sections for the Hexagon Tensor Accelerator, and what it does not take.

    Sections that were there before are replaced; what has been quantized stays so.

    Args:
        model: The model, or the path of a DLC.
        partitions: Ranges of layer ids for the accelerator, like ``0-11,177-215``; default: chosen.
        **options: ``soc="sm8250"`` to be told if a SoC has no HTA; ``tell`` and ``progress``, see
            :func:`xdlc.prepare.hta.prepare`.

    Raises:
        UsageError: If the ranges or an option are not valid.
        ConstraintError: If the model is not quantized.
    """
    from xdlc.prepare.hta import prepare as prepare_sections

    _check_options("prepare_hta", prepare_sections, options)
    return prepare_sections(executable(model), partitions, **options)


def verdicts(model: Model | PathLike, device: str, **options: Any) -> list[Verdict]:
    """Return for each compiled HTP cache of a model whether a device can use it, and what keeps it from it.

    Args:
        model: The model, or the path of a DLC.
        device: Name of the device's SoC, like ``sm8450``.
        **options: Flags of ``xdlc-graph-prepare --check`` under their names: ``outputs=["a"]``,
            ``mode="strict"``, ``sdk="2.40"``.

    Raises:
        UsageError: If the SoC, an option or an output is not known.
        ConstraintError: If the device has no HTP.
    """
    from xdlc.runtime.htp.verdict import verdicts as verdicts_of

    _check_options("verdicts", verdicts_of, options)
    return verdicts_of(model if isinstance(model, Model) else load(model), device, **options)


def run(
    model: Model | PathLike, feeds: Mapping[str, Array], runtime: str = "cpu", **options: Any
) -> dict[str, Array]:
    """Return the outputs of a model on this machine, by name.

    Args:
        model: The model, or the path of a DLC.
        feeds: Input arrays by name, in the layout of the graph's inputs.
        runtime: ``cpu`` (onnxruntime), ``htp`` (the vendor's emulation), or ``aip``: what ``sections`` does.
        **options: Further options of the runtime, like ``soc="sm8650"`` for ``htp``, and those of ``kernels``
            for ``cpu`` and ``aip``.

    Raises:
        UsageError: If the runtime, an option or an input name is not known.
        BackendError: If the engine is missing or fails.
    """
    from xdlc.runtime import run as run_model

    if runtime == "cpu":
        from xdlc.runtime import CpuSession

        _check_options("runtime cpu", CpuSession, options, more=("native", *KERNEL_OPTIONS))
        whole = executable(model)
        with _kernels_for(whole, options) as given:
            return run_model(whole, _by_name(feeds, "feeds"), **options, **given)
    elif runtime == "htp":
        from xdlc.runtime import htp

        _check_options("runtime htp", htp.run, options)
    elif runtime == "aip":
        native = bool(options.pop("native", False))
        return sections(model, **options).run(_by_name(feeds, "feeds"), native=native)
    return run_model(executable(model), _by_name(feeds, "feeds"), runtime=runtime, **options)


def sections(model: Model | PathLike, **options: Any) -> SectionSession:
    """Return a session that runs a model section by section, as its AIP record divides it.

    Sections on HTA that xdlc has compiled run as compiled, all others on the CPU.

    Args:
        model: The model, or the path of a DLC.
        **options: Options of :class:`xdlc.runtime.sections.SectionSession` and of ``kernels``.

    Raises:
        UsageError: If an option is not known.
        ContainerError: If there is no AIP record, or it is damaged, or does not fit the model.
        XdlcError: As ``executable`` does.
    """
    from xdlc.runtime.sections import SectionSession

    _check_options("sections", SectionSession, options, more=KERNEL_OPTIONS)
    held = model if isinstance(model, Model) else load(model)
    whole = executable(model)
    given = _taken_kernels(whole, options)
    try:
        return SectionSession(whole, **{"records": held.records, **options, **given})
    except ContainerError as error:
        if not isinstance(model, Model):
            error.where = ": ".join(filter(None, (os.fspath(model), error.where)))
        raise


def kernels(
    model: Model | PathLike,
    udo_package_path: PathLike | Sequence[PathLike] | None = None,
    allow_embedded_kernels: bool = False,
    udo_timeout: float | None = None,
) -> Kernels:
    """Return the kernels of a model's user-defined operations, for any number of sessions.

    They run in a process of their own, which ends when they are closed: use them as a context manager.

    Args:
        model: The model, or the path of a DLC.
        udo_package_path: Registration libraries, and Python files with functions that are marked as kernels.
        allow_embedded_kernels: Load kernels that the DLC carries.
        udo_timeout: Seconds that each call of a kernel may take; default: 60.

    Raises:
        UsageError: If a file is not there, the time-out is not valid, or an option has nothing to work on.
    """
    from xdlc.runtime.udo.opening import open_kernels

    held = model if isinstance(model, Model) else load(model)
    return open_kernels(held, udo_package_path, allow_embedded_kernels, udo_timeout)


def _taken_kernels(model: Model, options: dict[str, Any]) -> dict[str, Any]:
    """Take the options about kernels out of ``options`` and return what stands for them."""
    given = {name: options.pop(name) for name in KERNEL_OPTIONS if name in options}
    if not given:
        return {}
    if "kernels" in options:
        raise UsageError(f"kernels= is given beside {', '.join(given)}", fix="give one or the other")
    return {"kernels": kernels(model, **given)}


@contextmanager
def _kernels_for(model: Model, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give what ``_taken_kernels`` does, and close it."""
    taken = _taken_kernels(model, options)
    with taken["kernels"] if taken else nullcontext():
        yield taken
        for path in taken["kernels"].unused() if taken else ():
            logging.getLogger(__name__).warning(
                "nothing of %s is used: the model has no op that it offers", path
            )


def check_platform(runtimes: Sequence[str] | None = None, soc: str | None = None) -> Machine:
    """Return what this machine can do, after trying it.

    Args:
        runtimes: Names of the runtimes to try, out of ``cpu``, ``htp`` and ``aip``; default: all of them.
        soc: Name of the one SoC to tell of and to emulate; default: all, and one of each architecture.

    Raises:
        UsageError: If a runtime or the SoC is not known.
    """
    from xdlc.prepare import platform

    return platform.check_platform(platform.RUNTIMES if runtimes is None else runtimes, soc)


def emulation(
    model: Model | PathLike, soc: str | None = None, *, cpu_fallback: bool = False, **options: Any
) -> HtpSession:
    """Return a session that runs a model on the vendor's emulation of a SoC, as often as wanted.

    It takes the cache of the model that fits best, or compiles the model.  Use it as a context manager.

    Args:
        model: The model, or the path of a DLC.
        soc: Name of the SoC; default: that of the first usable cache, or else sm8650.
        cpu_fallback: Run what the SoC's HTP refuses on the CPU, and only the rest on the emulation.
        **options: Options of :class:`xdlc.runtime.htp.session.HtpSession`, and those of ``kernels``.

    Raises:
        UsageError: If an option is not known.
        XdlcError: As ``executable`` and the session do.
    """
    from xdlc.runtime.htp.session import HtpSession

    _check_options("emulation", HtpSession, options, more=("cpu_fallback", *KERNEL_OPTIONS))
    tell = options.get("tell", lambda text: None)

    def divide(held: Model, name: str) -> Model:
        from xdlc.prepare.htp import prepare_all

        bare = Model(dict(held.graphs), held.metadata | {"cacheList": []})
        prepared = prepare_all(bare, [name], partition=True)
        for text in prepared.notices:
            tell(text)
        raise_all(prepared.problems)
        return prepared.model

    if cpu_fallback:
        options["divide"] = divide
    whole = executable(model)
    given = _taken_kernels(whole, options)
    return HtpSession(whole, soc, **options, **given)


def to_onnx(model: Model | PathLike, path: PathLike, **options: Any) -> tuple[Path, ...]:
    """Write a model as an ONNX file that onnxruntime runs, and return the paths of the files written.

    Args:
        model: The model, or the path of a DLC.
        path: The ONNX file.
        **options: Flags of ``xdlc-to-onnx`` under their names: ``encodings="qdq"``, ``external_data=True``...

    Raises:
        UsageError: If an option, or the graph that it names, is not known.
        UnsupportedOp: If operations have no form in ONNX; all of them are listed.
        StorageError: If a file cannot be read or written.
    """
    from xdlc.runtime.export import export

    _check_options("to_onnx", export, options)
    return export(executable(model), path, **options)


def executable(model: Model | PathLike) -> Model:
    """Return the model, or the one that a DLC holds, made of ops that something can execute.

    Layers of SNPE 1, as containers of format 3 hold them, are translated into QNN operations.

    Raises:
        UnsupportedOp: If a layer has no translation; all of them are listed.
        ConstraintError: If a branch or a loop breaks a rule of control flow.
        XdlcError: As ``load`` does.
    """
    from xdlc.converter.snpe import has_layers, translate
    from xdlc.opdefs.control_flow import verify_control_flow

    held, where = (model, None) if isinstance(model, Model) else (load(model), os.fspath(model))
    if has_layers(held):
        return translate(held, where)
    raise_all(verify_control_flow(held.graphs), where=where)
    return held


def preparable(model: Model | PathLike) -> Model | PathLike:
    """Return the model or path as it is given, but layers of SNPE 1 translated as ``executable`` does.

    A path lets compilers read the file itself.
    """
    from xdlc.converter.snpe import has_layers

    held = model if isinstance(model, Model) else load(model)
    return executable(model) if has_layers(held) else model


def _by_name(feeds: Mapping[str, Array], what: str) -> Mapping[str, Array]:
    if not isinstance(feeds, Mapping):
        raise UsageError(f"{what} is of type {type(feeds).__name__}", fix="give a mapping {name: array}")
    return feeds


def _checked_dims(dims: Mapping[str, Sequence[int]] | None) -> dict[str, tuple[int, ...]] | None:
    if dims is None:
        return None
    checked = {}
    for name, shape in _by_name(dims, "input_dims").items():
        try:
            checked[name] = tuple(map(operator.index, shape))
        except TypeError as error:
            raise UsageError(
                f"input_dims gives {name!r} the shape {shape!r}",
                fix="give whole numbers, like (1, 3, 224, 224)",
            ) from error
        if any(extent > MAX_EXTENT for extent in checked[name]):
            raise UsageError(
                f"input_dims gives {name!r} the shape {list(checked[name])}",
                fix=f"give extents of at most {MAX_EXTENT}, which is what a DLC can hold",
            )
    return checked


def _check_options(
    verb: str, function: Callable[..., Any], options: Mapping[str, Any], more: Sequence[str] = ()
) -> None:
    known = [*_keywords(function), *more]
    for name in options:
        if name not in known:
            hint = nearest_names(name, known) or f"options: {', '.join(known)}"
            raise UsageError(f"{verb} has no option {name!r}", fix=hint)


def _keywords(function: Callable[..., Any]) -> list[str]:
    """Return the names of the options that a function takes by name only."""
    import inspect

    return [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
