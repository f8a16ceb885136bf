"""Models of a corpus, their inputs, and what onnxruntime makes of them."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RELATIVE_L2 = 1e-3
RELATIVE, ABSOLUTE = 1e-3, 1e-4
# Extents for open dimensions of models without reference inputs: the first set that onnxruntime takes.
EXTENTS = ((2, 3, 5, 7, 11, 13), (4,), (8,), (1,), (32,))


@dataclass(frozen=True)
class Row:
    """A model of the manifest."""

    name: str
    path: Path
    runs: bool

    @property
    def stored(self) -> Path:
        return self.path.with_suffix(".ortref.npz")


@dataclass
class Reference:
    """Inputs and onnxruntime's outputs, of large ones every n-th element."""

    feeds: dict[str, Any]
    outputs: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    strides: dict[str, int]


class NoTensors(Exception):
    """A model whose inputs or outputs are not all tensors of numbers."""


def rows(corpus: Path) -> list[Row]:
    """Return the manifest's ONNX models."""
    with open(corpus / "MANIFEST.csv", newline="") as file:
        entries = [entry for entry in csv.DictReader(file) if entry["file"].endswith(".onnx")]
    return [
        Row(
            entry["file"].removesuffix(".onnx"),
            corpus / entry["file"],
            entry["run_check"].startswith("ORT CPU runs"),
        )
        for entry in entries
        if entry["framework"] == "onnx"
    ]


def stored_reference(path: Path) -> Reference:
    """Return reference data as the corpus keeps them: ``in::NAME``, ``out::NAME``."""
    reference = Reference({}, {}, {}, {})
    with np.load(path) as arrays:
        for key in arrays.files:
            kind, _, name = key.partition("::")
            name = name.replace("|", "/")
            try:
                array = arrays[key]
            except ValueError as error:  # an array of Python objects
                raise NoTensors(f"{name!r} is a sequence, sparse or of strings") from error
            if kind == "in":
                reference.feeds[name] = array
            elif kind == "outshape":
                reference.shapes[name] = tuple(map(int, array))
            elif kind == "out":
                reference.outputs[name] = array
                reference.shapes[name] = array.shape
            elif every := re.fullmatch(r"outflat_every(\d+)", kind):
                reference.outputs[name], reference.strides[name] = array, int(every[1])
    return reference


NUMPY_TYPES: dict[str, Any] = {
    "float": np.float32,
    "double": np.float64,
    "float16": np.float16,
    "bool": np.bool_,
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def open_session(path: Path) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def live_reference(path: Path) -> Reference:
    """Return what onnxruntime makes of a model on seeded inputs."""
    session = open_session(path)
    for value in (*session.get_inputs(), *session.get_outputs()):
        if not value.type.startswith("tensor(") or value.type == "tensor(string)":
            raise NoTensors(f"{value.name!r} is a {value.type}")
    names = [value.name for value in session.get_outputs()]
    for dims in EXTENTS:
        feeds = made_inputs(session.get_inputs(), dims)
        try:
            results = session.run(names, feeds)
        except Exception as error:  # onnxruntime has no base class for its errors
            last = error
            continue
        outputs = dict(zip(names, results, strict=True))
        return Reference(feeds, outputs, {name: array.shape for name, array in outputs.items()}, {})
    raise last


def made_inputs(values: Sequence[Any], dims: Sequence[int]) -> dict[str, Any]:
    """Return normal numbers, small integers and booleans with bound dimensions."""
    rng = np.random.default_rng(0)
    symbols: dict[Any, int] = {}
    feeds = {}
    for value in values:
        shape = [
            dim
            if isinstance(dim, int)
            else symbols.setdefault(dim or (value.name, axis), dims[len(symbols) % len(dims)])
            for axis, dim in enumerate(value.shape)
        ]
        dtype = np.dtype(NUMPY_TYPES[value.type[7:-1]])
        array = rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 2, shape)
        feeds[value.name] = np.asarray(array).astype(dtype)
    return feeds


def error_of(result: Any, expected: Any, shape: tuple[int, ...], stride: int) -> tuple[float, str]:
    """Return an output's relative L2 error, and what is wrong with it, if anything."""
    if result.shape != shape:
        return np.inf, f"shape {list(result.shape)} instead of {list(shape)}"
    if result.dtype != expected.dtype:
        return np.inf, f"dtype {result.dtype} instead of {expected.dtype}"
    if stride > 1:
        result = result.reshape(-1)[::stride]
    if expected.dtype.kind in "iub":
        off = np.flatnonzero(result.reshape(-1) != expected.reshape(-1))
        if not off.size:
            return 0.0, ""
        ours, theirs = result.reshape(-1)[off[0]], expected.reshape(-1)[off[0]]
        return 1.0, f"{off.size} of {expected.size} {expected.dtype} differ, as {ours} instead of {theirs}"
    return _float_error(result.astype(np.float64).reshape(-1), expected.astype(np.float64).reshape(-1))


def _float_error(result: Any, expected: Any) -> tuple[float, str]:
    finite = np.isfinite(expected)
    if not np.array_equal(result[~finite], expected[~finite], equal_nan=True):
        return np.inf, "infinities or NaN differ"
    if not np.isfinite(result[finite]).all():
        return np.inf, "infinities or NaN where the reference is finite"
    difference = np.abs(result[finite] - expected[finite])
    norm = np.linalg.norm(expected[finite])
    error = float(np.linalg.norm(difference) / (norm or 1.0))
    if error <= RELATIVE_L2 or (difference <= ABSOLUTE + RELATIVE * np.abs(expected[finite])).all():
        return error, ""
    far = int((difference > ABSOLUTE + RELATIVE * np.abs(expected[finite])).sum())
    return error, f"relative L2 error {error:.2g}; {far} of {expected.size} elements are off"


def reference_of(row: Row) -> Reference | None:
    """Return a model's reference data, or None if onnxruntime does not run it."""
    if row.stored.is_file():
        return stored_reference(row.stored)
    return live_reference(row.path) if row.runs else None


def differences(results: Mapping[str, Any], reference: Reference) -> tuple[list[str], dict[str, float]]:
    """Return what is wrong with the outputs, and the relative L2 error of each.

    An output that is an input is ``NAME:0`` in a DLC.
    """
    problems, errors = [], {}
    own = {f"{name}:0": name for name in reference.outputs if name in reference.feeds}
    results = {own.get(name, name): values for name, values in results.items()}
    if list(results) != list(reference.outputs):
        problems.append(f"outputs {list(results)} instead of {list(reference.outputs)}")
    for name in results.keys() & reference.outputs.keys():
        expected, stride = reference.outputs[name], reference.strides.get(name, 1)
        errors[name], problem = error_of(np.asarray(results[name]), expected, reference.shapes[name], stride)
        if problem:
            problems.append(f"{name!r}: {problem}")
    return problems, errors


def is_random(row: Row, reference: Reference) -> bool:
    """Return whether a model draws numbers that now differ."""
    import onnx

    proto = onnx.load(row.path, load_external_data=False)
    bodies = [proto.graph.node, *(function.node for function in proto.functions)]
    drawing = re.compile("Random|Bernoulli|Multinomial|Dropout")
    if not any(drawing.match(node.op_type) for body in bodies for node in body):
        return False
    session = open_session(row.path)
    names = [value.name for value in session.get_outputs()]
    again = dict(zip(names, session.run(names, reference.feeds), strict=True))
    return bool(differences(again, reference)[0])


def run_as(model: Any, feeds: Mapping[str, Any], dtypes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of our model, fixed-point ones in the source's types.

    Such an output has two readings: stored integers, which a source that ends in QuantizeLinear gives, and
    the real numbers that they stand for, which one gives that ends in DequantizeLinear.
    """
    from xdlc.runtime.cpu import CpuSession

    session = CpuSession(model, threads=1)
    results = session.run(feeds)
    if all(array.dtype == dtypes.get(name, array.dtype) for name, array in results.items()):
        return results
    stored = session.run(feeds, native=True)
    return {
        name: array if array.dtype == dtypes.get(name) else stored[name] for name, array in results.items()
    }
