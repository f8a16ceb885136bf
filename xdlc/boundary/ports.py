"""Requests of users for inputs and outputs, read from options by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from xdlc.boundary import colour, datatype, layout, resizing, scaling
from xdlc.errors import UsageError, XdlcError, raise_all
from xdlc.ir import Model, ScaleOffset
from xdlc.ir.dtype import UINT8, DType
from xdlc.json_fields import MAX_PROBLEMS, choice
from xdlc.options import spell
from xdlc.options.graphs import BoundaryOptions

KINDS = ("image", "default", "opaque")
"""Kinds of inputs: ``opaque`` ones are passed on as they are."""


class Request(NamedTuple):
    """A request for one input or output.

    Attributes:
        where: The option or the place in a file.
        is_input: Whether it is an input; None if it may be either.
        value: Its value, as text or parsed.
    """

    where: str
    name: str
    is_input: bool | None
    field: str
    value: Any


@dataclass(frozen=True, slots=True)
class Port:
    """All requests of a user for an input or output.

    Attributes:
        quantization: Encoding of a fixed-point ``dtype``; None: that of the graph.
        kind: The option ``input_type``; ``colours`` is ``input_encoding``, others have the option's name.
    """

    name: str
    is_input: bool
    layout: str | None = None
    desired_layout: str | None = None
    dtype: DType | None = None
    quantization: ScaleOffset | None = None
    kind: str = "default"
    colours: tuple[str, str] | None = None
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    resize: resizing.Resize | None = None
    crop: resizing.Crop | None = None

    @property
    def is_image(self) -> bool:
        """Whether the requests include an image step: colours, mean, scale, resize, crop."""
        source, target = self.colours or ("", "")
        return bool(source != target or self.mean or self.scale or self.resize or self.crop)

    @property
    def has_channels(self) -> bool:
        """Whether a requested image step needs to know which axis has the channels."""
        return self.is_image and bool(
            self.colours or self.resize or self.crop or self.mean[1:] or self.scale[1:]
        )


Ports: TypeAlias = "dict[str, Port]"


def _kind(value: str) -> str:
    if value not in KINDS:
        raise UsageError(f"{value!r} is not a kind of input", fix=choice(str(value), KINDS))
    return value


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "layout": layout.parsed,
    "desired_layout": layout.parsed,
    "dtype": datatype.parsed_word,
    "source_dtype": datatype.parsed_word,
    "kind": _kind,
    "colours": colour.parsed,
    "mean": scaling.parsed,
    "scale": scaling.parsed,
    "resize": resizing.parsed_resize,
    "crop": resizing.parsed_crop,
}
"""Parsers of option values for a field of a port, if they differ; raise UsageError."""
_OTHER_NAMES = {"type": "kind", "encoding": "colours"}
"""Fields of a port by option name, where the names differ."""
_PRESERVED = {"layout": ("desired_layout",), "datatype": ("dtype", "quantization")}


def requests(options: BoundaryOptions) -> tuple[list[Request], list[Request]]:
    """Return the parsed requests of options and of a custom I/O file.

    Raises:
        UsageError: If a value is not valid, or a file; a ProblemList of all of them.
        StorageError: If a file cannot be read.
    """
    problems: list[XdlcError] = []
    raw: list[Request] = []
    by_name = {name: values or {} for name, values in options.items() if "put_" in name}
    for name, values in by_name.items():
        field = name.replace("input_", "").replace("output_", "")
        field = _OTHER_NAMES.get(field, field)
        if isinstance(values, Mapping):
            is_input = "output" not in name
            raw += [
                Request(f"{spell(name)} {port}", port, is_input, field, value)
                for port, value in values.items()
            ]
        else:
            problem = f"{spell(name)} is of type {type(values).__name__}"
            problems.append(UsageError(problem, fix="pass a mapping {name: value}"))
    custom: list[Request] = []
    if "config" in options or "custom_io" in options:
        from xdlc.boundary import files  # loads a reader of YAML

        if "config" in options:
            raw += files.read(options["config"], has_sections=True).requests
        if "custom_io" in options:
            custom = files.read(options["custom_io"], has_sections=False).requests
    parsed: tuple[list[Request], list[Request]] = ([], [])
    for target, source in zip(parsed, (raw, custom), strict=True):
        for request in source:
            try:
                parse = _PARSERS.get(request.field)
                target.append(request._replace(value=parse(request.value)) if parse else request)
            except UsageError as error:
                error.where = error.where or request.where
                problems.append(error)
    raise_all(problems)
    return parsed


def requested(model: Model, options: BoundaryOptions, notify: Callable[[str], None]) -> Ports:
    """Return the requests of options by name of the input or output.

    Args:
        options: The options; values may be texts of command lines.

    Raises:
        UsageError: If a name or a value is not known, or two options contradict each other; a ProblemList
            of all of them.
        StorageError: If a file cannot be read.
    """
    if not options:
        return {}
    single, custom = requests(options)
    sides = {tensor.name: (tensor, False) for tensor in model.main.outputs}
    sides |= {tensor.name: (tensor, True) for tensor in model.main.inputs}
    problems: list[XdlcError] = []
    chosen: dict[tuple[str, str], Request] = {}
    _choose(single, chosen, problems)
    is_kept = options.get("preserve_io") not in (None, False, ())
    kept = _preserve(options["preserve_io"], chosen, sides, notify) if is_kept else []
    _choose(custom, chosen, problems)
    ports: Ports = {}
    unknown: dict[tuple[str, str], XdlcError] = {}
    for request in chosen.values():
        tensor, is_input = sides.get(request.name, (None, False))
        if tensor is None or request.is_input not in (None, is_input):
            place = request.where, request.name
            if place not in unknown and len(unknown) < MAX_PROBLEMS:  # the nearest names take time
                known = [name for name, (_, side) in sides.items() if request.is_input in (None, side)]
                unknown[place] = _unknown(request.name, request.where, known)
        elif request.field == "source_dtype":
            if request.value.numpy != tensor.dtype.numpy:  # types of stored values are those of integers
                notify(
                    f"{request.where}: {request.name!r} is {tensor.dtype} in the source, not {request.value}"
                )
        else:
            held = ports.get(request.name, Port(request.name, is_input))
            ports[request.name] = replace(held, **{request.field: request.value})
    for name, port in ports.items():
        if port.colours and port.colours[0] in colour.PLANAR and port.dtype is None:
            ports[name] = replace(port, dtype=UINT8)
        if port.kind == "image" and not port.is_image:
            notify(f"image has no effect on {name!r} without {spell('input_encoding')}")
    problems += unknown.values()
    problems += [problem for port in ports.values() for problem in _contradictions(port)]
    raise_all(problems)
    kept += [name for name, port in ports.items() if port.kind == "opaque"]
    for name in kept:  # passes make fixed point of floats that the source quantizes
        port = ports.get(name, Port(name, sides[name][1]))
        ports[name] = replace(port, dtype=port.dtype or sides[name][0].dtype)
    return ports


def _choose(given: list[Request], chosen: dict[tuple[str, str], Request], problems: list[XdlcError]) -> None:
    """Add requests; each input or output has one for each field."""
    for request in given:
        other = chosen.setdefault((request.name, request.field), request)
        if other.value != request.value:
            problem = f"{request.name!r} has two values: {request.value}, and {other.value} by {other.where}"
            problems.append(UsageError(problem, where=request.where, fix="keep one value"))


def _preserve(
    requested: bool | str | Sequence[str],
    chosen: dict[tuple[str, str], Request],
    port_names: Collection[str],
    notify: Callable[[str], None],
) -> list[str]:
    """Drop requests that ``preserve_io`` overrides; return names with unchanged types."""
    option, kept = spell("preserve_io"), list[str]()
    dropped: list[Request | None] = []
    for text in (
        [""] if requested is True else requested if isinstance(requested, list | tuple) else [requested]
    ):
        kind, *names = str(text).replace(",", " ").split() or [""]
        if kind not in ("", *_PRESERVED):
            fix = "write layout or datatype, then names of inputs and outputs, or omit the option"
            raise UsageError(f"{option} can keep layout or datatype, not {kind!r}", fix=fix)
        raise_all([_unknown(name, option, port_names) for name in names if name not in port_names])
        fields = [field for each in _PRESERVED if kind in ("", each) for field in _PRESERVED[each]]
        dropped += [chosen.pop((name, field), None) for name in names or port_names for field in fields]
        kept += (names or port_names) if kind != "layout" else []
    for where in dict.fromkeys(request.where for request in dropped if request):
        notify(f"{option} overrides {where}")
    if not any(dropped):
        notify(f"{option} has no effect, because no other option changes layouts or types")
    return kept


def _unknown(name: str, where: str, known: Collection[str]) -> UsageError:
    problem = f"names {name!r}, which is not an input or output of the model"
    return UsageError(problem, where=where, fix=choice(name, known))


def _contradictions(port: Port) -> list[XdlcError]:
    """Return errors for opaque inputs with changes and encodings without a type."""
    problem, dtype = None, port.dtype
    if port.kind == "opaque" and (port.is_image or port.desired_layout or port.dtype):
        problem, fix = (
            "is opaque, but other options change this input",
            "omit the type opaque, or the options that change the input",
        )
    elif port.quantization and not (dtype and (dtype.is_fixed or (dtype.is_integer and dtype.bits <= 16))):
        problem, fix = "has a scale and an offset, but no type of 8 or 16 bits", "add a type like uint8"
    return [UsageError(f"{port.name!r} {problem}", fix=fix)] if problem else []
