"""The context of templates, made from definitions.

Backends of an op become cores, and cores of a package become libraries and folders of sources:

    op           backends        without wider      cores that a         first of each group
                 that it names   names              library supports     has the sources
    Blur         CPU, DSP_V68,   CPU, DSP_V68,      CPU, DSP_V68,        CPU: CPU
                 DSP_V73, DSP    DSP_V73            DSP_V73              DSP_V68: DSP_V68, DSP_V73

A name is wider than another one that includes it (``chain``): it is dropped, or HTP would get a library for
its oldest version beside those that are named.  DSPs of a group compile the same sources: the folder of
the oldest has them, and its view ``stands_for`` all of the group.

A data type of an operand on a core is that of the first that states one: the tables of the core, the tables
of a wider name, the definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdlc.errors import ModelError, XdlcError, raise_all
from xdlc.ir.dtype import DType
from xdlc.opdefs.backend_view import activation_types
from xdlc.opdefs.backends import chain
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.model import (
    LAYOUTS,
    Collection,
    DescriptionPart,
    OpDef,
    ParamDef,
    SupplementTensor,
    TensorDef,
)
from xdlc.opdefs.shape_text import stated_dims, states_dims, whole_shape
from xdlc.opdefs.supplements import offers_of
from xdlc.udo.generator.cpp import check_types
from xdlc.udo.generator.naming import MAX_LENGTH, Quoted, c_comment, camel, check_name, identifiers
from xdlc.udo.generator.template_context import (
    CPU,
    Core,
    CoreView,
    Enumerator,
    Library,
    OperationView,
    PackageView,
    Place,
    core_of,
    cores_of,
    op_notices,
    refusal,
)

_LONGEST = 200


def place_text(place: Place, core: CoreView | None = None) -> Quoted:
    """Return a comment line: name, data types, shape and further facts."""
    text = f"{place.name}: {'; '.join(_facts(place, core))}"
    return c_comment(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}...")


def _facts(place: Place, core: CoreView | None) -> Iterator[str]:
    if place.values:
        yield "one of " + ", ".join(value.name for value in place.values)
    else:
        every = (dtype for types in place.types.values() for dtype in types)
        types = every if core is None else place.types_on(core)
        yield " or ".join(dict.fromkeys(dtype.name for dtype in types))
    if not place.is_scalar:
        yield _shape(place)
    if place.layout:
        yield place.layout
    if place.static:
        yield "data of the model"
    if place.repeated:
        yield "any number of them"
    if place.default is not None:
        yield f"default {place.default}{_filled(place, core)}"
    elif not place.mandatory:
        yield "optional"


def _filled(place: Place, core: CoreView | None) -> str:
    """Return who fills in the default of an input: xdlc on the CPU, else the kernel."""
    if place.kind == "param":
        return ""
    own = core is not None and core.name != CPU
    return ", which the kernel fills in" if own else ", filled in if it is missing"


def _shape(place: Place) -> str:
    if place.dim_texts:
        return f"[{', '.join(place.dim_texts)}]"
    if place.rank is None:
        return "any rank"
    return f"rank {place.rank}"


_ALSO = {"HTP": ("HTP", "HTP_FP16")}
"""Tables of one processor: that of its float operations is one of its own."""


def package_view(collection: Collection, places: Mapping[str, str] | None = None) -> PackageView:
    """Return a package as templates see it.

    Args:
        places: File and line of operations, by name.

    Raises:
        ModelError: If a name cannot be one of generated code, an op has no data type on a core, or one that
            libraries do not have; a ProblemList of all problems if there are several.
    """
    where = f"package {collection.package}"
    check_name(collection.package, "package name", where)
    if not collection.opdefs:
        raise ModelError("has no operations", where=where, fix="define at least one operation")
    problems: list[XdlcError] = []
    operations: list[OperationView] = []
    for opdef in collection.opdefs:
        try:
            check_name(opdef.name, "operation")
            operations.append(_operation_view(opdef, collection))
            check_types(operations[-1])
        except ModelError as error:
            place = (places or {}).get(opdef.name, where)
            named = place if len(opdef.name) > MAX_LENGTH else f"{place}: operation {opdef.name}"
            problems.append(ModelError(error.problem, where=named, fix=error.fix))
    raise_all(problems)
    ops = tuple(operations)
    return PackageView(
        collection.package,
        f"udo_{collection.package}",
        collection.domain,
        collection.version,
        ops,
        tuple(_core_views(collection, ops)),
        f"{collection.package}OpDef.xml",
    )


def ignored_backends(collection: Collection) -> tuple[str, ...]:
    """Return the named backends that packages are not made for, sorted."""
    names = {name for opdef in collection.opdefs for name in offers_of(opdef, collection)}
    return tuple(sorted(name for name in names if core_of(name) is None))


def notices(collection: Collection) -> tuple[str, ...]:
    """Return notices about what accelerators do not support, or treat differently."""
    texts: dict[str, list[str]] = {}
    for opdef in collection.opdefs:
        backends = _specific_backends(opdef, collection)
        for text in op_notices(opdef, backends, lambda *key: _allowed(collection, *key)):
            texts.setdefault(text, []).append(opdef.name)
    return tuple(f"{', '.join(names)}{text}" for text, names in texts.items())


def _specific_backends(opdef: OpDef, collection: Collection) -> list[str]:
    """Return the backends of an op without names that include a versioned one."""
    names = offers_of(opdef, collection) or {CPU}
    return sorted(names - {other for name in names for other in chain(name)[1:]})


def _op_cores(opdef: OpDef, collection: Collection) -> tuple[Core, ...]:
    """Cores that execute an op: the CPU if the op names no core.

    Raises:
        ModelError: If no library can have the op.
    """
    names = _specific_backends(opdef, collection)
    candidates = sorted({core for name in names for core in cores_of(name)})
    cores = tuple(core for core in candidates if not refusal(opdef, core))
    if not cores:
        reason = (
            refusal(opdef, candidates[0]) if candidates else f"the operation names only {', '.join(names)}"
        )
        raise ModelError(
            f"no library can implement the operation: {reason}",
            fix="let the CPU or the GPU execute it"
            + (", or list its operands one by one" if candidates else ""),
        )
    return cores


def _core_views(collection: Collection, ops: Sequence[OperationView]) -> Iterable[CoreView]:
    cores = sorted({core for opdef in collection.opdefs for core in _op_cores(opdef, collection)})
    for core in cores:
        group = tuple(other.name for other in cores if other.group == core.group)
        stands_for = group if core.name == group[0] else ()
        own = tuple(op for op in ops if set(op.cores) & {core.name, *stands_for})
        libraries = _libraries(collection.package, core, own)
        yield CoreView(core, f"{collection.package}{core.suffix}", own, libraries, group[0], stands_for)


def _libraries(package: str, core: Core, ops: Sequence[OperationView]) -> tuple[Library, ...]:
    types = tuple(op.type for op in ops)
    if core.one_op_a_library:
        return tuple(Library(f"libUdo{package}{type}Impl{core.suffix}.so", (type,)) for type in types)
    return (Library(f"libUdo{package}Impl{core.suffix}.so", types),)


def _operation_view(opdef: OpDef, collection: Collection) -> OperationView:
    cores = _op_cores(opdef, collection)
    inputs = _places("input", opdef, opdef.inputs, collection, cores)
    outputs = _places("output", opdef, opdef.outputs, collection, cores)
    params = _places("param", opdef, tuple(opdef.params.values()), collection, cores)
    return OperationView(
        opdef.name,
        f"op_{opdef.name}",
        inputs,
        outputs,
        params,
        tuple(core.name for core in cores),
        _description(opdef.description),
        _states_shapes(opdef),
    )


def _states_shapes(opdef: OpDef) -> bool:
    """Return whether texts of the configuration state the shapes of all outputs."""
    known = {*stated_dims(opdef, outputs=False), *opdef.params}
    return known.issuperset(stated_dims(opdef)) and all(
        states_dims(entry) or whole_shape(entry) is not None for entry in opdef.outputs
    )


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _description(parts: Sequence[DescriptionPart]) -> tuple[str, ...]:
    return tuple(line for part in parts for line in _lines(part.text))


def _places(
    kind: str, opdef: OpDef, tensors: Sequence[TensorDef], collection: Collection, cores: Sequence[Core]
) -> tuple[Place, ...]:
    ids = identifiers([tensor.name for tensor in tensors])
    enums = identifiers([f"{camel(tensor.name)}Enum" for tensor in tensors], ids)
    return tuple(
        _place(kind, index, tensor, ids[index], enums[index], _types(opdef, tensor, kind, collection, cores))
        for index, tensor in enumerate(tensors)
    )


def _place(
    kind: str, index: int, tensor: TensorDef, id: str, enum: str, types: Mapping[str, tuple[DType, ...]]
) -> Place:
    names = tensor.enumeration if isinstance(tensor, ParamDef) else ()
    values = tuple(
        Enumerator(name, known, value)
        for value, (name, known) in enumerate(zip(names, identifiers(names), strict=True))
    )
    layout = tensor.layout if tensor.layout in LAYOUTS else ""
    rules = tuple(line for rule in tensor.constraints for line in _lines(rule.text))
    return Place(
        kind,
        index,
        tensor.name,
        id,
        enum if names else "",
        tensor.mandatory,
        tensor.repeated,
        tensor.is_static,
        tensor.rank,
        tensor.shape,
        layout,
        tensor.default,
        _initial(tensor, types),
        values,
        types,
        (*_description(tensor.description), *rules),
    )


def _initial(tensor: TensorDef, types: Mapping[str, tuple[DType, ...]]) -> Any:
    """The default of a parameter, in the first of its data types."""
    if not isinstance(tensor, ParamDef):
        return None
    dtypes = next(iter(types.values()), tensor.dtypes)
    try:
        return default_value(replace(tensor, dtypes=dtypes))
    except ValueError as error:
        raise ModelError(
            f"parameter {tensor.name!r}: its default is {error}", fix="correct the default"
        ) from error


def _types(
    opdef: OpDef, tensor: TensorDef, kind: str, collection: Collection, cores: Sequence[Core]
) -> dict[str, tuple[DType, ...]]:
    of_core = {}
    for core in cores:
        of_core[core.name] = _allowed(collection, opdef, tensor, kind, core)
        if core.name == CPU and kind != "param" and not tensor.is_static:
            stated = bool(_supplement(opdef.name, tensor.name, kind, collection, core))
            backends = offers_of(opdef, collection)
            of_core[CPU] = activation_types(of_core[CPU], stated=stated, backends=backends)
        if not of_core[core.name]:
            raise ModelError(
                f"the {kind} {tensor.name!r} has no data type for {core.name}",
                fix=f"state the type in a SupplementalOpDefList of {core.name}",
            )
    return of_core


def _allowed(
    collection: Collection, opdef: OpDef, tensor: TensorDef, kind: str, core: Core
) -> tuple[DType, ...]:
    return _supplement(opdef.name, tensor.name, kind, collection, core) or tensor.dtypes


def _supplement(type: str, name: str, kind: str, collection: Collection, core: Core) -> tuple[DType, ...]:
    """Return the data types that the tables of a core, or of a wider name, state."""
    for backend in chain(core.name):
        dtypes: dict[DType, None] = {}
        for table in collection.supplements:
            for op in table.ops.get(type, ()) if table.backend in _ALSO.get(backend, (backend,)) else ():
                places: Mapping[str, SupplementTensor] = {
                    "input": op.inputs,
                    "output": op.outputs,
                    "param": op.params,
                }[kind]
                if name in places:
                    dtypes |= dict.fromkeys(places[name].dtypes)
        if dtypes:
            return tuple(dtypes)
    return ()
