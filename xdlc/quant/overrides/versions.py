"""Versions of files of encodings: the vendor's, and AIMET's 0.4.0 to 2.1.0.

    {"version": "0.6.1",
     "activation_encodings": {"name": [{"bitwidth": 8, "dtype": "int", "is_symmetric": "False",
                                        "min": -1.0, "max": 1.0, "scale": 0.0078, "offset": -128}]},
     "param_encodings": {"name": [{...}, ...]}}

    {"version": "1.0.0",
     "activation_encodings": [{"name": "x", "enc_type": "PER_TENSOR", "dtype": "INT", "bw": 8,
                               "is_sym": false, "scale": [0.0078], "offset": [-128]}],
     "param_encodings": [...], "excluded_layers": []}

    {"version": "2.0.0",
     "encodings": [{"name": "x", "output_dtype": "uint8", "y_scale": 0.0078, "y_zero_point": 128},
                   {"name": "w", "output_dtype": "int8", "y_scale": [0.01, 0.02], "axis": 0}]}

Up to 0.6.1 a tensor has a row for each output channel, or one; AIMET's file for PyTorch has activations by
module instead of by name: ``{"conv1": {"input": {"0": {...}}, "output": {"0": {...}}}}``.  In 1.0.0 a row has
lists: channels are those of the output, blocks those of the input, the blocks of a channel after one another.
Offsets count from 0.

From 2.0.0 on a row has the terms of ONNX QuantizeLinear.  Integers may be signed;
``real = (stored - y_zero_point) * y_scale``.  ``axis`` is that of the channels, or with ``block_size`` that
of the blocks, in the source's tensor.  Integer scales of blocks over a real one per channel are
``per_block_int_scale`` and ``per_channel_float_scale``; 2.1.0 has them as
``y_scale: {"x": ..., "x_scale": ...}``.  Floats have no entries, unless as ``output_dtype``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from xdlc.json_fields import Fields, Node, Scope, Stop, kind_of
from xdlc.quant.overrides.override import Grain
from xdlc.runtime.export import aimet

MERGED = "merged_weights"
"""Key of a list of names of weights whose encodings are of the model's own values."""
SECTIONS = {"activation_encodings": "activation", "param_encodings": "param"}
LIST = "encodings"
"""Key of the one list of entries from 2.0.0 on."""
GRAINS = {
    "PER_TENSOR": Grain.TENSOR,
    "PER_CHANNEL": Grain.CHANNEL,
    "PER_BLOCK": Grain.BLOCK,
    "LPBQ": Grain.EXPANSION,
}
INTEGER_BITS = (2, 4, 8, 16, 32)
FLOAT_BITS = (16, 32)
_SIDES = {"input", "output"}


class Layout(Enum):
    """How a file has its entries."""

    ROWS = "lists of a row for each channel, by name"
    LISTS = "rows with lists of scales"
    ONE_LIST = "one list of activations and weights"


@dataclass(frozen=True, slots=True)
class Version:
    """Layout and fields of a version of the files.

    Attributes:
        layout: How it has its entries; those of ``ONE_LIST`` have none of the fields below.
        symmetric: Field of whether the offset is that of signed integers.
        integer: Word for integers in the field ``dtype``; empty if there is no such field, nor floats.
        floats: Words for floats, the first of which is written.
        has_arguments: Whether the file has ``quantizer_args``.
        is_written: Whether encodings are exported in it.
    """

    name: str
    layout: Layout = Layout.ROWS
    bits: str = "bitwidth"
    symmetric: str = "is_symmetric"
    integer: str = "int"
    floats: tuple[str, ...] = ("float",)
    has_arguments: bool = False
    is_written: bool = True


ROWS = Version("0.6.1", has_arguments=True)
LISTS = Version(aimet.VERSION, Layout.LISTS, "bw", "is_sym", "INT", ("FLOAT", "FP"))
ONE_LIST = Version("2.0.0", Layout.ONE_LIST)
VERSIONS = {
    version.name: version
    for version in (
        Version("0.4.0", integer=""),
        Version("0.5.0"),
        ROWS,
        LISTS,
        ONE_LIST,
        Version("2.1.0", Layout.ONE_LIST, is_written=False),
    )
}
ENCODING_VERSIONS = tuple(version.name for version in VERSIONS.values() if version.is_written)


def version_of(top: Fields) -> Version:
    """Return the version that a file is read as, by its structure.

    Raises:
        Stop: After a report of a version that is unknown.
    """
    name = top.value("version")
    if name is not None and (not isinstance(name, str) or name not in VERSIONS):
        known = ", ".join(VERSIONS)
        top.report("version", f"the file's version is {kind_of(name)}; known: {known}", f"use one of {known}")
        raise Stop
    has_list = LIST in top and not any(section in top for section in SECTIONS)
    if has_list or (name is not None and VERSIONS[name].layout is Layout.ONE_LIST):
        top.require(LIST, "[...]")
        return ONE_LIST
    for section in SECTIONS:
        top.require(section, "{}")
    types = {type(section) for section in map(top.value, SECTIONS) if section}
    return LISTS if name == LISTS.name or types == {list} else ROWS


class Entry(NamedTuple):
    """Entry of a file for a tensor; the kind is None if the file states none."""

    kind: str | None
    name: str
    node: Node


def entries(top: Fields, version: Version) -> Iterator[Entry]:
    """Iterate over the entries of a file by tensor; report faulty entries."""
    if version.layout is Layout.ONE_LIST:
        yield from _listed(top, LIST, None)
        return
    for section, kind in SECTIONS.items():
        if version.layout is Layout.LISTS:
            yield from _listed(top, section, kind)
            continue
        for name, node in top.members(section).items():
            named = Node(node.value, f"{section} {name!r}")
            is_module = isinstance(node.value, dict) and node.value and node.value.keys() <= _SIDES
            if kind == "activation" and is_module:
                yield from _ports(named, name, section, top.scope)
            elif not name:
                top.scope.report(named.path, "the entry has no name", "write the tensor's name")
            else:
                yield Entry(kind, name, named)


def _listed(top: Fields, section: str, kind: str | None) -> Iterator[Entry]:
    for node in top.items(section):
        row = Fields(node, "the entry", top.scope)
        row.need("name", '"..."')
        name = row.text("name")
        if name:
            yield Entry(kind, name, Node(node.value, f"{section} {name!r}"))


def _ports(module: Node, name: str, section: str, scope: Scope) -> Iterator[Entry]:
    """Iterate over the entries of a module by side and position."""
    for side, node in module.members():
        positions = node.value
        if not isinstance(positions, dict) or not all(key.isascii() and key.isdigit() for key in positions):
            problem = f"{side} of a module must be an object with positions, found {kind_of(positions)}"
            scope.report(node.path, problem, 'write the entries by position, like {"0": {...}}')
            continue
        for position, row in positions.items():
            port = f"{name} {side} {position[:9]}"
            yield Entry("activation", port, Node([row], f"{section} {port!r}"))
