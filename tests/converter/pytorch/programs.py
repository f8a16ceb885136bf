"""Small ``.pt2`` programs of torch.export, written without torch."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from tests.converter.pytorch.arguments import DTYPES, argument
from xdlc import ir
from xdlc.converter.pytorch.calls import Ref, SymbolRef, schema

Shape = Sequence[int | str]
_Stored = tuple[np.ndarray, dict[str, Any]]


class TinyProgram:
    """A program: add inputs, weights and ops, then write or convert it.

    ::

        made = TinyProgram()
        x = made.input("x", (1, 3))
        y = made.op("add.Tensor", x, made.weight("w", array), alpha=2)
        model = made.convert(tmp_path)
    """

    def __init__(self, examples: Mapping[str, int] | None = None) -> None:
        """Start an empty program."""
        self.examples = dict(examples or {})
        self.values: dict[str, dict[str, Any]] = {}
        self.numbers: dict[str, dict[str, Any]] = {}
        self.inputs: list[str] = []
        self.specs: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.stored: dict[str, dict[str, _Stored]] = {"weights": {}, "constants": {}}
        self.output_specs: list[dict[str, Any]] = []
        self.ranges: dict[str, Any] = {}
        self.calls: list[dict[str, Any]] = []
        self.fields: dict[str, Any] = {}
        self.ends: Sequence[Any] | None = None
        self._last: list[Ref] = []

    # ------------------------------------------------------------------ values

    def input(self, name: str, shape: Shape, dtype: str = "float32") -> Ref:
        """Add an input and return it; texts in its shape are expressions of symbols."""
        self._value(name, shape, dtype)
        self.specs.append({"user_input": {"arg": {"as_tensor": {"name": name}}}})
        return Ref(name)

    def number(self, name: str, expression: str) -> SymbolRef:
        """Add an argument that is a number and return it."""
        self.numbers[name] = self._size(expression)
        self.specs.append({"user_input": {"arg": {"as_sym_int": {"as_name": name}}}})
        return SymbolRef(name)

    def weight(
        self, name: str, array: np.ndarray, kind: str = "parameter", *, of: str = "", **meta: Any
    ) -> Ref:
        """Add a stored tensor and return it.

        Args:
            name: Its name in the state_dict.
            array: Its elements; those that are not contiguous are stored as they lie, with strides.
            kind: ``parameter``, ``buffer`` or ``tensor_constant``.
            of: The tensor whose storage it shares.
            **meta: Fields of its configuration that differ: ``strides``, ``sizes``, ``storage_offset``.
        """
        value = {"parameter": "p_", "buffer": "b_", "tensor_constant": "c_"}[kind] + name.replace(".", "_")
        meta = {"strides": [step // array.itemsize for step in array.strides], "storage_offset": 0, **meta}
        self._value(value, meta.pop("sizes", array.shape), str(array.dtype))
        kept = self.values[value] | {
            key: [{"as_int": each} for each in item] if isinstance(item, Sequence) else {"as_int": item}
            for key, item in meta.items()
        }
        self.values[value] = kept
        group = "constants" if kind == "tensor_constant" else "weights"
        self.stored[group][name] = array, kept | {"of": of}
        entry = {"arg": {"name": value}, f"{kind}_name": name}
        self.specs.append({kind: entry | ({"persistent": True} if kind == "buffer" else {})})
        return Ref(value)

    def _value(self, name: str, shape: Shape, dtype: str) -> None:
        sizes = [self._size(size) for size in shape]
        strides = [{"as_int": 0}] * len(shape)
        if all(not isinstance(size, str) for size in shape):
            steps = [int(np.prod(shape[axis + 1 :], dtype=int)) for axis in range(len(shape))]
            strides = [{"as_int": step} for step in steps]
        self.values[name] = {
            "dtype": DTYPES[dtype],
            "sizes": sizes,
            "strides": strides,
            "storage_offset": {"as_int": 0},
            "requires_grad": False,
            "device": {"type": "cpu", "index": None},
            "layout": 7,
        }

    def _size(self, size: int | str) -> dict[str, Any]:
        if not isinstance(size, str):
            return {"as_int": int(size)}
        hint = {"as_int": self.examples[size]} if size in self.examples else None
        return {"as_expr": {"expr_str": size, "hint": hint}}

    # ------------------------------------------------------------------ ops

    def op(
        self,
        target: str,
        *arguments: Any,
        shape: Shape | None = None,
        dtype: str | None = None,
        results: Sequence[tuple[Shape, str]] | None = None,
        listed: bool = False,
        number: str | int | None = None,
        module: str = "",
        named: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> Any:
        """Add a call of an operator and return its result, or the list of its results.

        Args:
            target: The operator of ATen, ``relu`` or ``add.Tensor``; others with their namespace.
            *arguments: Its arguments in the order of its schema: values of the program, numbers, texts, None,
                data types as ``np.dtype``, graphs as ``TinyProgram``, lists of those.
            shape: Shape of the result; default: that of the first value among the arguments.
            dtype: Data type of the result; default: likewise.
            results: Shapes and types of several results.
            listed: Whether the results are one list.
            number: Expression that the result, a number, has.
            module: Path of the module that calls it.
            named: Arguments by name, where names are those of arguments here.
            **keywords: Arguments by name.
        """
        stated = schema(target)
        kinds = {each.name: each.kind for each in stated or ()}
        names = [*kinds, *(f"arg{index}" for index in range(len(kinds), len(arguments)))]
        named_arguments = [*zip(names, arguments, strict=False), *keywords.items(), *(named or {}).items()]
        inputs = [
            {"name": key, "arg": argument(value, kinds.get(key, "")), "kind": 1 + (index >= len(arguments))}
            for index, (key, value) in enumerate(named_arguments)
        ]
        base = target.split(".")[0 if stated else 1 if "." in target else 0]
        if number is not None:
            symbol = SymbolRef(self._free(base))
            self.numbers[symbol] = self._size(number)
            outputs: list[Any] = [{"as_sym_int": {"as_name": symbol}}]
            self._last = []
        else:
            found = self._results(named_arguments, shape, dtype, results)
            self._last = []
            for size, kind in found:
                self._last.append(Ref(self._free(base)))
                self._value(self._last[-1], size, kind)
            each = [{"name": value} for value in self._last]
            outputs = [{"as_tensors": each}] if listed else [{"as_tensor": value} for value in each]
        path = f";L__self__.{module},{module},torch.nn.Module" if module else ""
        full = target if stated is None else f"aten.{target}"
        self.nodes.append(
            {
                "target": f"torch.ops.{full}" + ".default" * (full.count(".") < 2),
                "inputs": inputs,
                "outputs": outputs,
                "metadata": {"nn_module_stack": f"L__self__,,test.Net{path}"},
            }
        )
        if number is not None:
            return symbol
        return self._last if results is not None else self._last[0]

    def _results(
        self,
        given: Sequence[tuple[str, Any]],
        shape: Shape | None,
        dtype: str | None,
        results: Sequence[tuple[Shape, str]] | None,
    ) -> Sequence[tuple[Shape, str]]:
        if results is not None:
            return results
        flat = [item for _, value in given for item in (value if isinstance(value, list) else [value])]
        first = next((self.values[item] for item in flat if isinstance(item, Ref)), None)
        if shape is None:
            assert first is not None
            shape = [size.get("as_int", size.get("as_expr", {}).get("expr_str")) for size in first["sizes"]]
        if dtype is None:
            assert first is not None
            dtype = next(name for name, code in DTYPES.items() if code == first["dtype"])
        return [(shape, dtype)]

    def _free(self, name: str) -> str:
        made, count = name, 0
        while made in self.values or made in self.numbers:
            count += 1
            made = f"{name}_{count}"
        return made

    # ------------------------------------------------------------------ files

    def document(self, outputs: Sequence[Any] | None = None) -> dict[str, Any]:
        """Return the program as JSON; outputs default to the results of the last op."""
        ends = list(next(each for each in (outputs, self.ends, self._last) if each is not None))
        specs = sorted(self.specs, key=lambda spec: "user_input" in spec)
        inputs = [_of_spec(*next(iter(spec.items()))) for spec in specs]
        output_specs = self.output_specs + [{"user_output": {"arg": argument(end)}} for end in ends]
        before = [next(iter(spec.values()))["arg"] for spec in self.output_specs]
        return {
            "graph_module": {
                "graph": {
                    "inputs": inputs,
                    "outputs": [{"as_tensor": each} for each in before] + [argument(end) for end in ends],
                    "nodes": self.nodes,
                    "tensor_values": self.values,
                    "sym_int_values": self.numbers,
                    "sym_bool_values": {},
                    "is_single_tensor_return": False,
                    "custom_obj_values": {},
                },
                "signature": {"input_specs": specs, "output_specs": output_specs},
                "module_call_graph": self.calls,
                "treespec_namedtuple_fields": self.fields,
            },
            "opset_version": {"aten": 10},
            "range_constraints": self.ranges,
            "schema_version": {"major": 8, "minor": 20},
            "torch_version": "2.13.0",
        }

    def write(self, folder: Path, outputs: Sequence[Any] | None = None, name: str = "net") -> Path:
        """Write the program to a folder and return its path."""
        records = {"archive_format": b"pt2", "archive_version": b"0", "byteorder": b"little"}
        records["models/model.json"] = json.dumps(self.document(outputs)).encode()
        for kind, tensors in self.stored.items():
            config = {}
            for index, (tensor, (array, meta)) in enumerate(tensors.items()):
                meta, of = {key: item for key, item in meta.items() if key != "of"}, meta["of"]
                path = config[of]["path_name"] if of else f"{kind[:-1]}_{index}"
                pickled = {"use_pickle": False, "is_param": kind == "weights"}
                config[tensor] = {"path_name": path, **pickled, "tensor_meta": meta}
                if not of:
                    records[f"data/{kind}/{path}"] = _storage(array)
            records[f"data/{kind}/model_{kind}_config.json"] = json.dumps({"config": config}).encode()
        return archive(folder / f"{name}.pt2", records)

    def convert(self, folder: Path, outputs: Sequence[Any] | None = None, **options: Any) -> ir.Model:
        """Write the program, convert it and return the model."""
        return xdlc.convert(self.write(folder, outputs), **options)


def archive(path: Path, records: Mapping[str, bytes], top: str = "net") -> Path:
    """Write records as a zip archive, as torch does, and return its path."""
    with zipfile.ZipFile(path, "w") as file:
        for name, content in records.items():
            file.writestr(zipfile.ZipInfo(f"{top}/{name}"), content)
    return path


def _of_spec(kind: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input of a graph that a signature describes."""
    if kind == "constant_input":
        return entry["value"]
    return entry["arg"] if kind == "user_input" else {"as_tensor": entry["arg"]}


def _storage(array: np.ndarray) -> bytes:
    """Return the bytes of an array as they lie in memory, from its first element."""
    last = sum((size - 1) * step for size, step in zip(array.shape, array.strides, strict=True))
    count = last // array.itemsize + 1
    flat = np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,))
    return flat.tobytes() if array.size else b""


def results(
    folder: Path,
    target: str,
    *arguments: Any,
    like: Any,
    named: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> np.ndarray | list[np.ndarray]:
    """Return what a program of one operator computes on the host.

    Args:
        folder: Folder for the file.
        target: As of ``TinyProgram.op``.
        *arguments: Likewise; arrays become inputs of the program.
        like: The expected result, or the list of expected results: shapes and types that the program states.
        named: As of ``TinyProgram.op``.
        **keywords: Arguments by name.
    """
    builder, feed = TinyProgram(), {}

    def passed(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [passed(item) for item in value]
        if isinstance(value, np.ndarray):
            name = f"x{len(feed)}"
            feed[name] = value
            return builder.input(name, value.shape, str(value.dtype))
        return value

    stated = [(each.shape, str(each.dtype)) for each in (like if isinstance(like, list) else [like])]
    given = [passed(value) for value in arguments]
    keywords, named = (
        {key: passed(value) for key, value in each.items()} for each in (keywords, dict(named or {}))
    )
    ends = builder.op(target, *given, results=stated, named=named, **keywords)
    model = builder.convert(folder, ends)
    got = xdlc.run(model, feed)
    found = [got[tensor.name] for tensor in model.main.outputs]
    return found if isinstance(like, list) else found[0]
