"""Files with requests for inputs and outputs: the vendor's custom I/O and converter configurations."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from xdlc.boundary.options import Wish
from xdlc.errors import ModelError, StorageError, raise_all
from xdlc.ir import Model, ScaleOffset, Tensor
from xdlc.json_fields import Fields, Node, Scope, Stop

MOST_BYTES, MOST_DEPTH = 1 << 17, 16
_UNDEFINED = "QNN_DEFINITION_UNDEFINED"
_INPUTS, _OUTPUTS = "Input Tensor Configuration", "Output Tensor Configuration"
_SRC, _DESIRED, _GRAPH = "Src Model Parameters", "Desired Model Parameters", "Converted Graph"
_STORED = {"uint8": "ufixed8", "int8": "sfixed8", "uint16": "ufixed16", "int16": "sfixed16"}
"""Types that are stored values, wherever the graph has numbers with fractions."""
_CUSTOM = {
    "IOName": "name",
    "Layout": {"Model": "layout", "Custom": "desired_layout"},
    "Datatype": "dtype",
    "QuantParam": {"Type": "definition", "Scale": "scale", "Offset": "offset"},
}
_OUTPUT = {
    "Name": "name",
    _SRC: {"DataType": "source_dtype", "Layout": "layout"},
    _DESIRED: {
        "DataType": "dtype",
        "DType": "dtype",
        "Layout": "desired_layout",
        "QuantParams": {"Scale": "scale", "Offset": "offset"},
    },
}
_INPUT = _OUTPUT | {_DESIRED: {**_OUTPUT[_DESIRED], "Shape": "shape", "Color Conversion": "colours"}}  # type: ignore[dict-item]


class Config(NamedTuple):
    """Content of a configuration of qairt-converter.

    Attributes:
        wishes: Requests for inputs and outputs.
        shapes: Shapes by input name.
        outputs: Names of the outputs of the converted graph; none if those of the source.
    """

    wishes: list[Wish]
    shapes: dict[str, tuple[int, ...]]
    outputs: list[str]


def custom_io(path: str | os.PathLike[str]) -> list[Wish]:
    """Return the requests of a custom I/O file, each for an input or an output.

    Raises:
        StorageError: If the file cannot be read.
        ModelError: If it is not of that form; a ProblemList of all that is wrong.
    """
    return _read(path, has_sections=False).wishes


def config(path: str | os.PathLike[str]) -> Config:
    """Return the content of a configuration of qairt-converter.

    Raises:
        StorageError: If the file cannot be read.
        ModelError: If it is not of that form; a ProblemList of all that is wrong.
    """
    return _read(path, has_sections=True)


def _read(path: str | os.PathLike[str], *, has_sections: bool) -> Config:
    scope = Scope(os.fspath(path))
    root = Node(_loaded(Path(path), scope.where))
    found = Config([], {}, [])
    try:
        if has_sections:
            fields = Fields(root, "the file", scope, (_GRAPH, _INPUTS, _OUTPUTS))
            for entry in _items(fields, _GRAPH):
                cut = Fields(entry, _GRAPH, scope, ("Input Tensors", "Output Tensors"))
                names = _words(cut, "Input Tensors")  # checked to be inputs of the model
                found.wishes.extend(Wish(scope.where, name, True, "name", name) for name in names)
                found.outputs.extend(_words(cut, "Output Tensors"))
            for key, table, side in ((_INPUTS, _INPUT, True), (_OUTPUTS, _OUTPUT, False)):
                for entry in _items(fields, key):
                    _add(entry, table, side, scope, found)
        else:
            for entry in root.items() if isinstance(root.value, list) else [root]:
                _add(entry, _CUSTOM, None, scope, found)
    except Stop:
        pass
    raise_all(scope.problems, where=scope.where)
    return found


def _add(entry: Node, table: dict[str, Any], is_input: bool | None, scope: Scope, found: Config) -> None:
    """Add what an entry requests."""
    values = dict(_flat(entry, table, scope))
    if "name" not in values:
        if isinstance(entry.value, dict):
            scope.report(entry.path, "an entry names no input or output", f"add {next(iter(table))}")
        return
    name, where = str(values["name"]), scope.place(entry.path)
    quantization = {key: values.pop(key) for key in ("definition", "scale", "offset") if key in values}
    is_defined = bool(quantization) and quantization.get("definition") != _UNDEFINED
    scale: Any = quantization.get("scale")
    offset: Any = quantization.get("offset")
    known = type(scale) in (int, float) and 1e-30 < scale < 1e30 and type(offset) is int  # no bool
    if is_defined and known and abs(offset) < 1 << 31:
        found.wishes.append(Wish(where, name, is_input, "quantization", ScaleOffset(scale, offset)))
    elif is_defined or len(quantization) > 1:
        text = f"Scale, a number above 0, and Offset, a whole number, go together, without {_UNDEFINED}"
        scope.report(entry.path, text, "write both, like Scale: 0.0078125 and Offset: -128, or none")
    shape = str(values.pop("shape", "")).strip("[]()").replace(" ", "")
    if shape:
        if not all(size.isdecimal() and len(size) < 10 for size in shape.split(",")):
            scope.report(entry.path, f"{shape[:40]!r} is no shape", "write it like 1,3,224,224")
        else:
            found.shapes[name] = tuple(map(int, shape.split(",")))
    for field, value in values.items():
        text = str(value)
        text = _STORED.get(text.lower(), text) if field == "dtype" else text
        found.wishes.append(Wish(where, name, is_input, field, text))


def _flat(entry: Node, table: dict[str, Any], scope: Scope) -> Iterator[tuple[str, Any]]:
    """Iterate over the values in an entry by field, those of entries in it too; empty ones are omitted."""
    fields = Fields(entry, "an entry", scope, tuple(table))
    for key, field in table.items():
        node = fields.node(key)
        if node is None or node.value in (None, ""):
            continue
        if isinstance(field, dict):
            yield from _flat(node, field, scope)
        elif isinstance(node.value, str | int | float) or field == "shape":
            yield field, node.value
        else:
            fields.wrong(key, "one value", node, f"write {key}: VALUE")


def _items(fields: Fields, key: str) -> list[Node]:
    node = fields.node(key)
    return [] if node is None or node.value is None else list(fields.items(key))


def _words(fields: Fields, key: str) -> list[str]:
    """Return names that are a list, or one text with commas."""
    node = fields.node(key)
    if node is None or node.value is None:
        return []
    if isinstance(node.value, str):
        return [word.strip() for word in node.value.split(",")]
    return list(fields.strings(key))


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reader of plain values, in which a key occurs once."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [key.value for key, _ in node.value]
        for key, _ in node.value:
            if keys.count(key.value) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} twice", key.start_mark)
        return super().construct_mapping(node, deep)


def _loaded(path: Path, where: str) -> Any:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise StorageError(f"cannot be read: {error.strerror}", where=where) from error
    fix = "start from the file that --dump_custom_io_config_template or --dump_config_template writes"
    try:
        if len(content) > MOST_BYTES:
            raise yaml.YAMLError(f"more than {MOST_BYTES} bytes")
        depth = 0
        for event in yaml.parse(content, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MOST_DEPTH or isinstance(event, yaml.AliasEvent):
                raise yaml.YAMLError("it has aliases, or is nested more deeply than such a file")
        return yaml.load(content, Loader=_Loader)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        text = " ".join(str(error).split())
        raise ModelError(f"is no YAML file with requests: {text}", where=where, fix=fix) from error


def template(model: Model, *, has_sections: bool = False) -> str:
    """Return a file that requests what the main graph of a model has, to be changed by hand.

    Args:
        model: The model.
        has_sections: Whether it is a configuration of qairt-converter, else custom I/O.
    """
    sides = ((_INPUTS, model.main.inputs), (_OUTPUTS, model.main.outputs))
    lines: list[str] = []
    for title, tensors in sides:
        lines += [f"{title}:"] if has_sections else []
        for tensor in tensors:
            lines += (_section if has_sections else _entry)(tensor, model.metadata.get("layouts", {}))
    return "\n".join(lines) + "\n"


def _entry(tensor: Tensor, layouts: dict[str, str]) -> list[str]:
    name, dtype, scale, layout = _values(tensor, layouts)
    lines = [f"- IOName: {name}"]
    lines += [f"  Layout: {{ Model: {layout}, Custom: {layout} }}"] if layout else []
    lines.append(f"  Datatype: {dtype}")
    if scale is not None:
        lines += ["  QuantParam:", "    Type: QNN_DEFINITION_DEFINED", f"    Scale: {scale.scale!r}"]
        lines.append(f"    Offset: {scale.offset}")
    return lines


def _section(tensor: Tensor, layouts: dict[str, str]) -> list[str]:
    name, dtype, scale, layout = _values(tensor, layouts)
    held = [f"      DataType: {dtype}", f"      Layout: {layout}"]
    lines = [f"  - Name: {name}", f"    {_SRC}:", *held, f"    {_DESIRED}:", *held, "      QuantParams:"]
    lines += [f"        Scale: {'' if scale is None else repr(scale.scale)}"]
    return [*lines, f"        Offset: {'' if scale is None else scale.offset}"]


def _values(tensor: Tensor, layouts: dict[str, str]) -> tuple[str, str, ScaleOffset | None, str]:
    scale = tensor.encoding if isinstance(tensor.encoding, ScaleOffset) else None
    words = {stored: word for word, stored in _STORED.items()}
    dtype = words.get(tensor.dtype.name, tensor.dtype.name)
    return json.dumps(tensor.name, ensure_ascii=False), dtype, scale, layouts.get(tensor.name, "")
