"""From framework models: converting, checking, drafting definitions of what is not covered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from xdlc.api.options import PathLike, check_lists, check_options, checked_dims, keywords
from xdlc.errors import UsageError
from xdlc.ir import Model

if TYPE_CHECKING:
    from xdlc.converter.report import Report
    from xdlc.opdefs.custom import CustomOps
    from xdlc.udo.config import Converted


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
        return convert_onnx(path, input_dims=checked_dims(input_dims), custom=custom, **options)


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
        dims = checked_dims(input_dims)
        return check_onnx(path, target=target, input_dims=dims, custom=custom, **options)


def _custom_ops(
    verb: str, converter: Callable[..., Any], options: dict[str, Any]
) -> AbstractContextManager[CustomOps]:
    """Take the options that name operations of users out of ``options``, and return these operations."""
    from xdlc.udo.custom_ops import custom_ops

    own = keywords(custom_ops)
    if "custom" in options:
        raise UsageError(
            f"{verb} has no option 'custom'", fix="name configurations by udo_config_paths, plugins by plugin"
        )
    check_options(verb, converter, options, more=own)
    shared = keywords(converter)
    given = {name: options[name] for name in own if name in options}
    for name in own:
        if name not in shared:
            options.pop(name, None)
    return custom_ops(**given)


def draft_udo_config(
    path: PathLike,
    target: PathLike = "-",
    *,
    package_name: str = "MyOps",
    input_dims: Mapping[str, Sequence[int]] | None = None,
    udo_config_paths: Sequence[PathLike] = (),
    form: str = "",
    same_shapes: bool = False,
    datatypes: Sequence[str] = (),
    backends: Sequence[str] = (),
    operators: Sequence[str] = (),
) -> Converted:
    """Return a draft of definitions for the operators of a model that nothing covers; nothing is written.

    Operators that no definition can stand for are left out; ``problems`` of the result tells why.

    Args:
        path: An ONNX file.
        target: Where the draft is to be written: a file, a folder, or ``-`` for standard output.
        package_name: Name of the package.
        input_dims: Shapes by input name.
        udo_config_paths: Configurations that there are already.
        form: ``xml`` or ``json``; default: as the target's name ends, or else XML.
        same_shapes: Whether outputs whose shape the model does not state in full get that of the first input.
        datatypes: Data types that inputs and outputs of reals may have, beside their own; default:
            ``FLOAT_32``, ``FIXED_8`` and ``FIXED_16``, so that a quantizer may store them.
        backends: Backends that the package is for; default: ``CPU``.
        operators: Operators to draft too, although they have a mapping.

    Raises:
        UsageError: If every operator is covered, a data type is none of reals, or there is no such backend.
        UnsupportedOp: If no definition can stand for any of the operators; all reasons are listed.
        ModelError: If the file is not a valid model, or the package's name cannot stand in a definition.
        StorageError: If the file cannot be read.
    """
    from xdlc.converter.onnx.uncovered import uncovered
    from xdlc.udo.config.converting import drafted
    from xdlc.udo.configured_ops import configured_ops

    check_lists(datatypes=datatypes, backends=backends, operators=operators)
    known = configured_ops(udo_config_paths)
    nodes, others = uncovered(path, input_dims=checked_dims(input_dims), custom=known, operators=operators)
    return drafted(
        nodes,
        others,
        path,
        target,
        package=package_name,
        form=form,
        same_shapes=same_shapes,
        datatypes=datatypes,
        backends=backends,
    )
