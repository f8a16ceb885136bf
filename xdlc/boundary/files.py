"""Files with requests: the vendor's custom I/O and converter configurations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from xdlc.boundary.layout import inferred
from xdlc.boundary.ports import Request
from xdlc.errors import ModelError, UsageError
from xdlc.ir import Model, ScaleOffset
from xdlc.ir.files import read_bytes
from xdlc.json_fields import Fields, Node, Scope

MOST_BYTES, MOST_DEPTH = 1 << 16, 16
_UNDEFINED = "QNN_DEFINITION_UNDEFINED"
_INPUTS, _OUTPUTS = "Input Tensor Configuration", "Output Tensor Configuration"
_SRC, _DESIRED, _GRAPH = "Src Model Parameters", "Desired Model Parameters", "Converted Graph"
_EMPTY = ("", "null", "~")
_TEMPLATE = "start from the file that `--dump_custom_io_config_template` or `--dump_config_template` writes"
_STORED = {"uint8": "ufixed8", "int8": "sfixed8", "uint16": "ufixed16", "int16": "sfixed16"}
"""Types that mean stored integers, where the graph has floats."""
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
    """Content of a file: requests, shapes by input name, and names of outputs."""

    requests: list[Request]
    shapes: dict[str, tuple[int, ...]]
    outputs: list[str]


def read(path: str | os.PathLike[str], *, has_sections: bool) -> Config:
    """Return the content of a file.

    Args:
        has_sections: Whether it is a configuration of qairt-converter, else custom I/O of SNPE and QNN.

    Raises:
        StorageError: If the file cannot be read.
        ModelError: If it is not of that form; a ProblemList of all that is wrong.
    """
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"the path is of type {type(path).__name__}", fix="pass the path of a YAML file")
    scope = Scope(os.fspath(path))
    root = Node(load_yaml(Path(path), _Loader, form="a YAML file of settings", fix=_TEMPLATE))
    config = Config([], {}, [])
    with scope.collected():
        if has_sections:
            fields = Fields(root, "the file", scope, (_GRAPH, _INPUTS, _OUTPUTS))
            for entry in fields.items(_GRAPH):
                cut = Fields(entry, _GRAPH, scope, ("Input Tensors", "Output Tensors"))
                names = _words(cut, "Input Tensors")  # checked to be inputs of the model
                config.requests.extend(Request(scope.where, name, True, "name", name) for name in names)
                config.outputs.extend(_words(cut, "Output Tensors"))
            for key, table, side in ((_INPUTS, _INPUT, True), (_OUTPUTS, _OUTPUT, False)):
                for entry in fields.items(key):
                    _add(entry, table, side, scope, config)
        else:
            for entry in root.items() if isinstance(root.value, list) else [root]:
                _add(entry, _CUSTOM, None, scope, config)
    return config


def _add(entry: Node, table: dict[str, Any], is_input: bool | None, scope: Scope, config: Config) -> None:
    """Add the requests of an entry."""
    values = dict(_flat(entry, table, scope))
    if "name" not in values:
        if isinstance(entry.value, dict):
            scope.report(entry.path, "an entry names no input or output", f"add {next(iter(table))}")
        return
    name, where = values["name"], scope.place(entry.path)
    definition, *numbers = (values.pop(key, None) for key in ("definition", "scale", "offset"))
    is_defined = definition not in (None, _UNDEFINED) or (definition is None and any(numbers))
    if is_defined or any(numbers):
        try:
            scale, offset = float(numbers[0] or ""), int(numbers[1] or "")
            if definition == _UNDEFINED or not (1e-30 < scale < 1e30 and abs(offset) < 1 << 31):
                raise ValueError
            config.requests.append(Request(where, name, is_input, "quantization", ScaleOffset(scale, offset)))
        except ValueError:
            text = f"Scale (above 0) and Offset (a whole number) need each other, and exclude {_UNDEFINED}"
            scope.report(entry.path, text, "write both, like Scale: 0.0078125 and Offset: -128, or omit both")
    shape = values.pop("shape", "").strip("[]()").replace(" ", "")
    if shape:
        if not all(size.isdecimal() and len(size) < 10 for size in shape.split(",")):
            scope.report(entry.path, f"{shape[:40]!r} is not a shape", "write a shape like 1,3,224,224")
        else:
            config.shapes[name] = tuple(map(int, shape.split(",")))
    for field, value in values.items():
        text = _STORED.get(value.lower(), value) if field == "dtype" else value
        config.requests.append(Request(where, name, is_input, field, text))


def _flat(entry: Node, table: dict[str, Any], scope: Scope) -> Iterator[tuple[str, str]]:
    """Iterate over the nonempty texts in an entry and its entries, by field."""
    fields = Fields(entry, "an entry", scope, tuple(table))
    for key, field in table.items():
        node = fields.node(key)
        if node is None:
            continue
        if isinstance(field, dict):
            yield from _flat(node, field, scope)
        elif isinstance(node.value, str):
            yield field, node.value
        elif field == "shape" and isinstance(node.value, list):
            yield field, ",".join(map(str, node.value))
        else:
            fields.wrong(key, "one value", node, f"write {key}: VALUE")


def _words(fields: Fields, key: str) -> list[str]:
    """Return names from a list or from a text with commas."""
    node = fields.node(key)
    if node is not None and isinstance(node.value, str):
        return [word.strip() for word in node.value.split(",")]
    return list(fields.strings(key))


class UniqueKeys:
    """A part of a YAML loader: keys of a mapping are texts, and differ."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            if name in content:
                raise yaml.constructor.ConstructorError(None, None, f"{name!r} repeats", key.start_mark)
            content[name] = self.construct_object(value, deep=True)  # type: ignore[attr-defined]
        return content


class _Loader(UniqueKeys, yaml.BaseLoader):  # type: ignore[misc]
    """Reader of lists, texts, and mappings with unique keys and values."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        content = super().construct_mapping(node, deep)
        return {key: value for key, value in content.items() if value not in _EMPTY}


def load_yaml(path: Path, loader: Any, *, form: str, fix: str) -> Any:
    """Return the content of a small YAML file without aliases.

    Args:
        loader: Class of the reader.
        form: What the file should be, with its article: ``a recipe``.
        fix: What to do if the file is not YAML.

    Raises:
        StorageError: If the file cannot be read.
        ModelError: If the file is not YAML, too large, or nested too deeply.
    """
    content = read_bytes(path, MOST_BYTES)
    try:
        if len(content) > MOST_BYTES:
            raise yaml.YAMLError(f"the file has more than {MOST_BYTES} bytes")
        depth = 0
        for event in yaml.parse(content, Loader=yaml.BaseLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MOST_DEPTH or isinstance(event, yaml.AliasEvent):
                raise yaml.YAMLError("the file has YAML aliases, or is nested too deeply")
        return yaml.load(content, Loader=loader)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        text = " ".join(str(error).split())
        raise ModelError(f"is not {form}: {text}", where=os.fspath(path), fix=fix) from error


def template(model: Model, *, has_sections: bool = False) -> str:
    """Return the text of an I/O file that describes the main graph, for editing.

    Args:
        has_sections: Whether it is a configuration of qairt-converter, else custom I/O.
    """
    content: dict[str, list[Any]] = {_INPUTS: [], _OUTPUTS: []}
    words = {stored: word for word, stored in _STORED.items()}
    for title, tensors in zip(content, (model.main.inputs, model.main.outputs), strict=True):
        for tensor in tensors:
            dtype = words.get(tensor.dtype.name, tensor.dtype.name)
            known = model.metadata.get("layouts", {}).get(tensor.name) or inferred(model.main, tensor)
            scale = tensor.encoding if isinstance(tensor.encoding, ScaleOffset) else None
            numbers = {"Scale": scale and scale.scale, "Offset": scale and scale.offset}
            form = {"DataType": dtype, "Layout": known}
            layout = {"Layout": {"Model": known, "Custom": known}} if known else {}
            steps = {"QuantParam": {"Type": "QNN_DEFINITION_DEFINED", **numbers}} if scale else {}
            custom = {"IOName": tensor.name, **layout, "Datatype": dtype, **steps}
            is_bound = title == _INPUTS and tensor.rank and not tensor.dynamic_axes
            shape = {"Shape": ",".join(map(str, tensor.shape))} if is_bound else {}
            desired = {**form, **shape, "QuantParams": numbers}
            section = {"Name": tensor.name, _SRC: dict(form), _DESIRED: desired}
            content[title].append(section if has_sections else custom)
    found = content if has_sections else [*content[_INPUTS], *content[_OUTPUTS]]
    return str(yaml.safe_dump(found, sort_keys=False, allow_unicode=True))
