"""Conversion of framework models: import, dry run, drafts of UDO definitions."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import chain
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from xdlc.api.verbs import checked_dims, verb
from xdlc.converter.frontends import Frontend, check_own_options, find_frontend
from xdlc.errors import UsageError, XdlcError, each_problem
from xdlc.ir import Model
from xdlc.options import Notify, PathLike, Step, options_of, spell
from xdlc.options.graphs import DRAFTED_PACKAGE, BoundaryOptions, ConvertOptions, DraftOptions
from xdlc.worker.temporary import TemporaryFolder

if TYPE_CHECKING:
    from onnx import ModelProto
    from torch.nn import Module

    from xdlc.converter.checking import Report
    from xdlc.converter.pipeline import SourceModel
    from xdlc.opdefs.source_match import UdoSet
    from xdlc.udo.config import Converted

_TORCH_OPTIONS = ("torch_exporter", "trust")
"""Options for the export by torch, which the importer does not have."""
_BY_ONNX = "torch.onnx exported the network to ONNX: names and operators come from the exported graph"
_log = logging.getLogger(__name__)


@verb
def convert(
    path: PathLike | ModelProto | Module,
    example_inputs: Any = None,
    input_dims: Mapping[str, Sequence[int]] | Any = None,
    *,
    notify: Notify | None = None,
    step: Step | None = None,
    **options: Unpack[ConvertOptions],
) -> Model:
    """Convert a framework model to a model of QNN operations.

    Inputs and outputs keep the names of the source model.  Without options, inputs and outputs also keep
    the layouts and data types of the source model.

    Args:
        path: A model file, an ``onnx.ModelProto``, or a PyTorch network in memory: a module (exported by
            ``torch.export``), an exported program, or TorchScript.
        example_inputs: Inputs to export a module with: a tuple of tensors, a tensor, or a mapping of tensors
            by input name.  If you pass shapes by input name instead, xdlc uses the shapes as ``input_dims``.
        input_dims: Shapes by input name, with the batch dimension.  Set the dimensions that the file leaves
            open.  -1 keeps a dimension open.
        notify: Called with each notice, a line of text.  Default: the log.
        step: Called as ``step(title, done, total)`` when a step begins or advances.  A ``total`` of 0 means
            that xdlc does not know the number of steps.
        **options: Options of the conversion.

    Returns:
        The model.  Its weights stay in the source file until you use them.

    Raises:
        UsageError: If xdlc does not know an option or an input name, or the option is for other frameworks.
        ModelError: If the file is not a valid model.  If xdlc knows its format, the error names the format.
        UnsupportedOp: If neither QNN nor the host can run some operators; the error lists the operators.
        StorageError: If the file cannot be read.
    """
    chosen = _importing(options, example_inputs, input_dims, notify=notify, step=step)
    with _udo_set(chosen) as udos, _source(path, chosen) as (frontend, file):
        return frontend.convert(file, udos=udos, **chosen)


def read_source(path: PathLike, **options: Any) -> tuple[Frontend, SourceModel]:
    """Return the importer of a source model, and the model as its reader returns it.

    Args:
        path: A model file.
        **options: Options of ``convert``, with ``input_dims``.

    Raises:
        XdlcError: As ``convert`` does.
    """
    chosen = _importing(cast("ConvertOptions", options), None, options.pop("input_dims", None))
    with _udo_set(chosen) as udos, _source(path, chosen) as (frontend, file):
        return frontend, frontend.source_model(file, udos=udos, **chosen)


@verb
def check(
    path: PathLike | ModelProto | Module,
    example_inputs: Any = None,
    input_dims: Mapping[str, Sequence[int]] | Any = None,
    *,
    target: str | None = None,
    converted: Callable[[Model], None] | None = None,
    **options: Unpack[ConvertOptions],
) -> Report:
    """Check a framework model; return its problems and the ops of its nodes.

    ``check`` writes no file, and lists problems of the model instead of raising errors for them.

    Args:
        path: A model file, an ``onnx.ModelProto``, or a PyTorch network in memory.
        example_inputs: Inputs to export a PyTorch module with, like ``example_inputs`` of ``convert``.
        input_dims: Shapes by input name.
        target: Name of a SoC whose HTP must support each op.  xdlc queries the vendor's library, or its own
            tables if the library is not installed.
        converted: Called with the converted model, if the model has no problems.
        **options: Options of the conversion.

    Returns:
        The report.  ``problems`` lists each problem with its place and fix; ``nodes`` lists the ops that each
        source node becomes.

    Raises:
        UsageError: If xdlc does not know an option, an input name or the SoC.
        ModelError: If the file is not a model of its format.
        StorageError: If the file cannot be read.
    """
    if isinstance(example_inputs, str):
        raise UsageError(
            f"example_inputs is the string {example_inputs!r}, not inputs",
            fix=f"to name a SoC, pass target={example_inputs!r}",
        )
    from xdlc.converter.checking import check as check_model

    chosen = _importing(options, example_inputs, input_dims)
    with _udo_set(chosen) as udos, _source(path, chosen) as (frontend, file):
        return check_model(frontend, file, target=target, converted=converted, udos=udos, **chosen)


def _importing(
    options: ConvertOptions, examples: Any, input_dims: Mapping[str, Sequence[int]] | Any, **callbacks: Any
) -> dict[str, Any]:
    """Return the options of an importer, with the port options merged into one."""
    if isinstance(examples, Mapping) and _are_shapes(examples.values()) and input_dims is None:
        examples, input_dims = None, examples
    of_boundary = options_of(BoundaryOptions)
    boundary = {name: value for name, value in options.items() if name in of_boundary}
    chosen: dict[str, Any] = {name: value for name, value in options.items() if name not in of_boundary}
    more = {"example_inputs": examples, "boundary": boundary or None, **callbacks}
    chosen |= {name: value for name, value in more.items() if value is not None}
    chosen["input_dims"] = input_dims
    if "config" in options:
        _add_config(chosen, options["config"])
    return chosen


def _are_shapes(values: Iterable[Any]) -> bool:
    """Return whether values hold numbers and names, as shapes do, and no tensors."""
    sizes = chain.from_iterable(value if isinstance(value, list | tuple) else [value] for value in values)
    return all(isinstance(size, Number | str | None) for size in sizes)


def _add_config(options: dict[str, Any], path: PathLike) -> None:
    """Add the shapes and outputs of a configuration to the options of an importer."""
    from xdlc.boundary.files import read

    config = read(path, has_sections=True)
    dims = options.get("input_dims") or {}
    same = isinstance(dims, Mapping) and all(
        tuple(dims.get(name, shape)) == shape for name, shape in config.shapes.items()
    )
    names = options.get("out_name") or config.outputs
    for name, fits in (("input_dims", same), ("out_name", list(names) == config.outputs)):
        if not fits and (config.shapes if name == "input_dims" else config.outputs):
            both = f"{spell(name)} and {spell('config')}"
            raise UsageError(f"{both} state different values", fix="pass only one option")
    options |= {"input_dims": {**dims, **config.shapes}} if config.shapes else {}
    options |= {"out_name": config.outputs} if config.outputs else {}


@contextmanager
def _source(
    model: PathLike | ModelProto | Module, options: dict[str, Any]
) -> Iterator[tuple[Frontend, PathLike]]:
    """Yield importer and file of a model; one in memory is written to a file.

    The importer's own options stay in ``options``, its name is taken out of them.
    """
    framework = options.pop("framework", None)
    own = options.pop("importer_options", {})
    with ExitStack() as stack:
        file: Any = model

        folders: list[str] = []

        def folder() -> Path:
            folders.append(stack.enter_context(TemporaryFolder()))
            return Path(folders[-1])

        as_onnx = _uses_onnx(own)
        if not isinstance(model, str | os.PathLike) and _is_live(model):
            file, framework = _exported(model, folder(), options, as_onnx=as_onnx), None
            own = {name: value for name, value in own.items() if name not in _TORCH_OPTIONS}
        elif options.keys() & {"example_inputs", "dynamic_shapes"}:
            raise UsageError(
                "a file needs no example_inputs or dynamic_shapes", fix="omit both options, or pass a module"
            )
        elif hasattr(model, "SerializeToString"):
            file, framework = _written(model, folder()), framework or "onnx"
        if not isinstance(file, str | os.PathLike):
            fix = "pass the path of a model file, a ModelProto or a PyTorch module"
            raise UsageError(f"the model is of type {type(file).__name__}, not a path or a model", fix=fix)
        path: PathLike = file
        options["input_dims"] = checked_dims(options["input_dims"])
        frontend = find_frontend(path, framework)
        check_own_options(frontend, options, own)
        options |= {name: value for name, value in own.items() if name not in _TORCH_OPTIONS}
        if as_onnx and file is model:
            shapes = options["input_dims"] or {}
            from xdlc.converter.pytorch.live import export_file

            path = export_file(Path(path), folder(), shapes, trusted=bool(own.get("trust")))
            frontend = find_frontend(path, "onnx")
            check_own_options(frontend, options, {})
        if as_onnx:
            (options.get("notify") or _log.warning)(_BY_ONNX)
        try:
            yield frontend, path
        except XdlcError as error:  # a model in memory has no file that callers know
            for problem in (error, *each_problem(error)):
                for name in folders:
                    problem.where = (problem.where or "").replace(f"{name}{os.sep}", "")
            raise


def _uses_onnx(own: Mapping[str, Any]) -> bool:
    """Return whether the importer's own options choose the exporter of torch.onnx."""
    if "torch_exporter" not in own:
        return False
    from xdlc.converter.pytorch.live import uses_onnx

    return uses_onnx(own)


def _is_live(model: object) -> bool:
    from xdlc.converter.pytorch.live import is_live

    return is_live(model)


def _exported(model: Any, folder: Path, options: dict[str, Any], *, as_onnx: bool) -> Path:
    """Return the file that torch exports; leave the reader's options in ``options``."""
    from xdlc.converter.pytorch.live import export

    examples, dims = options.pop("example_inputs", None), options["input_dims"]
    dynamic = options.pop("dynamic_shapes", None)
    path, shapes = export(model, folder, examples, dynamic, as_onnx=as_onnx)
    options["input_dims"] = dims or shapes or None
    return path


def _written(model: Any, folder: Path) -> Path:
    """Return the file to which an ONNX model in memory is written."""
    try:
        content = model.SerializeToString(deterministic=True)
    except Exception as error:  # what protobuf raises has had several names
        raise UsageError(
            f"ONNX cannot serialize the model in memory: {error}",
            fix="write the model with onnx.save, and pass the path",
        ) from error
    path = folder / "model.onnx"
    path.write_bytes(content)
    return path


def _udo_set(options: dict[str, Any]) -> AbstractContextManager[UdoSet]:
    """Return the UDOs that options name, and leave the converter's own."""
    from xdlc.udo.load import load

    of_both = {name: options[name] for name in ("package_name", "notify") if name in options}
    own = {name: options.pop(name) for name in _UDO_OPTIONS if name in options}
    return load(**own, **of_both)


_UDO_OPTIONS = ("udo_config_paths", "op_package_config", "converter_op_package_lib", "plugin", "no_plugins")
"""Options that name UDOs."""


@verb
def draft_udo_config(
    path: PathLike,
    target: PathLike = "-",
    *,
    input_dims: Mapping[str, Sequence[int]] | None = None,
    **options: Unpack[DraftOptions],
) -> Converted:
    """Return a draft of definitions for a model's unsupported operators.

    The function writes no file.  It omits operators that no definition can describe; ``problems`` of the
    result has the reasons.

    Args:
        path: A model file.
        target: Where you will write the draft: a file, a folder, or ``-`` for standard output.
        input_dims: Shapes by input name.
        **options: Options of the draft.

    Raises:
        UsageError: If xdlc maps every operator, a data type is not for floats, or a backend is unknown.
        UnsupportedOp: If no definition can describe any of the operators; the error lists all reasons.
        ModelError: If the file is not a valid model, or the package's name is not valid in a definition.
        StorageError: If the file cannot be read.
    """
    from xdlc.converter.checking import uncovered
    from xdlc.udo.config.convert import drafted
    from xdlc.udo.load import load

    frontend = find_frontend(path)
    if not frontend.has_drafts:
        raise UsageError(
            f"xdlc cannot draft definitions for {frontend.model}", where=str(path), fix="write a plugin"
        )
    arguments: dict[str, Any] = {**options}
    own = {name: arguments.pop(name) for name in ("weights",) if name in arguments}
    check_own_options(frontend, {}, own)
    with load(udo_config_paths=arguments.pop("udo_config_paths", ()), no_plugins=True) as udos:
        nodes, others = uncovered(
            frontend,
            path,
            input_dims=checked_dims(input_dims),
            udos=udos,
            operators=arguments.pop("operators", ()),
            **own,
        )
    package = arguments.pop("package_name", DRAFTED_PACKAGE)
    return drafted(nodes, others, path, target, package=package, **arguments)
