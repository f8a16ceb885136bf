"""Input lists: text files that name the raw files of each inference.

    # op names whose outputs are wanted as well        (optional, first)
    % tensor names that are wanted as well             (optional, next)
    path/to/input.raw                                  one inference of a model with one input
    a:=path/a.raw b:=path/b.raw                        one inference of a model with several

Relative paths are taken from the current folder.  Raw files are headerless, little-endian, in the layout
of the graph's input; float32 for inputs of floats and fixed point, or the graph's own type for native files.
Those of integers and bools hold the input's own type, or float32 as the vendor's tools have it.  Which of
the two follows from the size.  Where both fit, as for int32, a file of integers of 4 or 8 bytes is float32
if a value of it, so read, is 1e-30 or larger: integers below 228,737,632 are tiny as floats, and whole
floats are larger as integers.  Of narrower types it is float32 then.
``.npy`` files carry their own type and are converted; integers for a quantized input are its stored values,
as those of ``Session.run`` are.  For a graph of batch B > 1, files may hold one
item instead of B: then consecutive lines fill a batch, and the last one is padded with zeros.

A dynamic dimension of the graph follows from the size of a raw file; several of them follow from ``.npy``
files.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from xdlc.errors import StorageError, UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import Graph, Tensor
from xdlc.ir.files import open_file, read_bytes
from xdlc.options import spell
from xdlc.runtime import array_files

Array = Any  # numpy.ndarray of any dtype
FIX_PATH = "correct the path; relative paths start from the current folder"
MOST_BYTES, MOST_LINES, MOST_PROBLEMS = 16 << 20, 200_000, 1000
SUFFIXES = (".npy", ".raw", ".bin")
"""Files of a folder that are samples."""
PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
MOST_QUOTED = 1 << 20
"""Characters of all lines with quotes, which are divided slowly."""
_DIGITS = re.compile(r"(\d+)")
_WORD = 32  # bits from which on integers below 2 ** 27 are tiny as float32
_LEAST_FLOAT = 1e-30


@dataclass(frozen=True, slots=True)
class InputFile:
    """One checked file.

    Attributes:
        native: Whether a raw file holds the tensor's stored type instead of float32.
        shape: The tensor's, with dynamic dimensions from the file, or that of a single item of the batch.
    """

    path: Path
    tensor: Tensor
    native: bool
    shape: array_files.Shape

    def read(self) -> Array:
        """Return the values in the type of the runtime.

        Raises:
            StorageError: If the file has gone or become shorter since it was checked.
        """
        tensor, real = self.tensor, np.dtype("<f4")
        stored = tensor.dtype.numpy
        try:
            if self.path.suffix == ".npy":
                array = np.array(array_files.load(self.path).reshape(self.shape))
                if tensor.encoding is not None and array.dtype == stored:
                    return array
            else:
                with open_file(self.path) as file:
                    array = np.fromfile(file, stored if self.native else real).reshape(self.shape)
        except (OSError, ValueError) as error:
            raise StorageError(f"cannot be read: {error}", where=str(self.path), fix=FIX_PATH) from error
        wanted = real if tensor.dtype.is_fixed and not self.native else stored
        return array.astype(wanted, copy=False)

    @property
    def cast(self) -> str:
        """Type of the integers in an .npy file that are read as floats, or nothing."""
        if self.path.suffix != ".npy":
            return ""
        dtype = array_files.load(self.path).dtype
        return str(dtype) if dtype.kind in "iu" and self.read().dtype.kind == "f" else ""


@dataclass(frozen=True, slots=True)
class Inference:
    """Inputs of one execution of the graph.

    Attributes:
        lines: One mapping of input name to file per line; several lines make up a batch.
        batch: Batch size to fill up to, or None where a line is a whole inference.
    """

    lines: tuple[Mapping[str, InputFile], ...]
    batch: int | None

    @property
    def results(self) -> int:
        """Number of results: one for each line."""
        return len(self.lines)

    def feeds(self) -> dict[str, Array]:
        """Return the input arrays by name."""
        if self.batch is None:
            return {name: file.read() for name, file in self.lines[0].items()}
        feeds = {}
        for name in self.lines[0]:
            items = [line[name].read() for line in self.lines]
            padding = [np.zeros_like(items[0])] * (self.batch - len(items))
            feeds[name] = np.concatenate([*items, *padding])
        return feeds


@dataclass(frozen=True, slots=True)
class InputList:
    """A checked list.

    Attributes:
        inferences: In the order of the lines.
        ops: Op names of the ``#`` line.
        tensors: Tensor names of the ``%`` line.
    """

    inferences: tuple[Inference, ...]
    ops: tuple[str, ...]
    tensors: tuple[str, ...]

    def samples(self) -> Iterator[dict[str, Array]]:
        """Iterate over the feeds; one inference is in memory at a time."""
        for inference in self.inferences:
            yield inference.feeds()

    def repeated(self, count: int | None, seconds: float | None) -> Iterator[Inference]:
        """Iterate over the inferences: once, up to a number, or for some seconds."""
        start = time.monotonic()
        is_once = count is None and seconds is None
        for number, inference in enumerate(self.inferences if is_once else cycle(self.inferences)):
            if count is not None and number >= count:
                return
            if number and seconds is not None and time.monotonic() - start >= seconds:
                return
            yield inference

    def __len__(self) -> int:
        return len(self.inferences)


def lists_of(lists: Path, graphs: Sequence[str]) -> dict[str, Path]:
    """Return the list of each graph that runs.

    Args:
        lists: A list for the first graph; or several with commas between them, one for each graph in order,
            where ``__`` omits a graph.

    Raises:
        UsageError: If there are more lists than graphs, or none, or there is no graph.
    """
    if not graphs:
        fix = f"use the DLC before it was prepared, or run a cache: {spell('runtime', 'htp')}"
        raise UsageError("the model has no graph, only caches", where=str(lists), fix=fix)
    parts = os.fspath(lists).split(",")
    if len(parts) == 1 or os.path.isfile(lists):
        return {graphs[0]: lists}
    if len(parts) > len(graphs):
        fix = f"give one list for each graph, and __ for a graph to skip: {', '.join(graphs)}"
        raise UsageError(
            f"you gave {len(parts)} input lists, but the model has {len(graphs)} graph(s)",
            where=str(lists),
            fix=fix,
        )
    paths = {name: Path(part) for name, part in zip(graphs, parts, strict=False) if part != "__"}
    if not paths:
        raise UsageError(
            "you gave no graph a list", where=str(lists), fix="name a list for at least one graph"
        )
    return paths


def read_input_list(
    path: Path,
    graph: Graph,
    *,
    native: bool | Collection[str] = False,
    optional: Collection[str] = (),
) -> InputList:
    """Return the inferences that a list names, after a check of every line and file.

    Args:
        graph: The graph that will read the files.
        native: Whether raw files hold the inputs' stored types instead of float32, or names of inputs whose
            files do.
        optional: Inputs that a line need not name.

    Raises:
        StorageError: If the list cannot be read.
        UsageError: If it names no inference.
        ProblemList: With one problem for each wrong line or file, by line number.
    """
    ops, tensors, numbered = _split(_text(path))
    lines: list[dict[str, InputFile]] = []
    problems: list[XdlcError] = []
    for number, line in numbered:
        try:
            lines.append(_files(line, f"{path}:{number}", graph, native, optional, problems))
        except UsageError as error:
            problems.append(error)
        if len(problems) >= MOST_PROBLEMS:
            break
    missing = [problem for problem in problems if problem.code == "XD803"]
    if len(missing) > 1:  # one cause: the current folder
        missing[0].problem += f", and {len(missing) - 1} other file(s) of the list are missing too"
        problems = [problem for problem in problems if problem not in missing[1:]]
    raise_all(problems, where=str(path))
    if not lines:
        raise UsageError("the input list is empty", where=str(path), fix="write one line for each sample")
    return InputList(tuple(_grouped(lines, graph, str(path))), ops, tensors)


def read_names(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the op names and tensor names of a list, without its inferences.

    Raises:
        StorageError: If the list cannot be read.
    """
    return _split(_text(path))[:2]


def folder_list(folder: Path) -> str:
    """Return the list of the samples in a folder: 2.npy before 10.npy.

    Raises:
        UsageError: If it has none.
        StorageError: If the folder cannot be read.
    """
    try:
        files = list(folder.iterdir())
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise StorageError(problem, where=str(folder), fix="check its permissions", code="XD801") from error
    names = [file for file in files if file.suffix in SUFFIXES]
    names.sort(
        key=lambda file: [int(part) if part.isdecimal() else part for part in _DIGITS.split(file.name)]
    )
    if not names:
        for file in files:
            _refuse_picture(file, str(folder))
        fix = f"name a folder of files that end in {', '.join(SUFFIXES)}, or a list of samples"
        raise UsageError(
            f"the folder has no {', '.join(SUFFIXES)} files", where=str(folder), fix=fix, code="XD205"
        )
    return "".join(f"{shlex.quote(str(file))}\n" for file in names)


def _refuse_picture(path: Path, where: str) -> None:
    if path.suffix.lower() in PICTURES:
        fix = f'resize and scale the picture as in training, and write numpy.save("{path.stem}.npy", array)'
        raise UsageError(f"{path.name} is a picture; samples are arrays", where=where, fix=fix, code="XD206")


def _text(path: Path) -> str:
    if os.path.isdir(path):
        return folder_list(path)
    _refuse_picture(path, str(path))
    data = read_bytes(path, MOST_BYTES)
    if len(data) > MOST_BYTES:
        raise UsageError(
            f"the input list has more than {MOST_BYTES} bytes", where=str(path), fix="split the list"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StorageError(
            "the input list cannot be read: it is not UTF-8 text", where=str(path), fix="check the path"
        ) from error


def _split(text: str) -> tuple[tuple[str, ...], tuple[str, ...], list[tuple[int, str]]]:
    ops: list[str] = []
    tensors: list[str] = []
    numbered = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line.startswith("#"):
            ops += line[1:].split()
        elif line.startswith("%"):
            tensors += line[1:].split()
        elif line:
            numbered.append((number, line))
    quoted = sum(len(line) for _, line in numbered if "'" in line or '"' in line)
    if len(numbered) > MOST_LINES or quoted > MOST_QUOTED:
        problem = f"has more than {MOST_LINES} lines, or {MOST_QUOTED} characters in lines with quotes"
        raise UsageError(f"the input list {problem}", fix="split the list, or use file names without blanks")
    return tuple(ops), tuple(tensors), numbered


def _files(
    line: str,
    where: str,
    graph: Graph,
    native: bool | Collection[str],
    optional: Collection[str],
    problems: list[XdlcError],
) -> dict[str, InputFile]:
    inputs = {tensor.name: tensor for tensor in graph.inputs}
    files: dict[str, InputFile] = {}
    words = _words(line, where)
    if len(words) > 2 * len(inputs) + 8:
        raise UsageError(
            f"the line has {len(words)} words, but the model has {len(inputs)} input(s)",
            where=where,
            fix=FIX_PATH,
        )
    for word in words:
        name, mark, rest = word.partition(":=")
        if not mark:
            needed = [name for name in inputs if name not in optional]
            if len(needed) != 1:
                raise UsageError(
                    f"the model has {len(inputs)} inputs, and {word!r} names no input",
                    where=where,
                    fix="write name:=path for each of: " + ", ".join(inputs),
                )
            name, rest = needed[0], word
        if name not in inputs:
            hint = nearest_names(name, inputs) or "use one of " + ", ".join(inputs)
            problems.append(UsageError(f"the model has no input {name!r}", where=where, fix=hint))
        elif name in files:
            problems.append(UsageError(f"has input {name!r} twice", where=where, fix="keep one path"))
        elif not rest:
            problems.append(UsageError(f"has no path for input {name!r}", where=where, fix=FIX_PATH))
            inputs.pop(name)
        else:
            try:
                is_native = native if isinstance(native, bool) else name in native
                files[name] = _checked(Path(rest), inputs[name], is_native, where)
            except XdlcError as error:
                problems.append(error)
                inputs.pop(name)
    missing = [name for name in inputs if name not in files and name not in optional]
    if missing:
        raise UsageError(f"has no file for input {', '.join(missing)}", where=where, fix="add name:=path")
    return files


def _words(line: str, where: str) -> Sequence[str]:
    if "\0" in line:
        raise UsageError("the line has a NUL character", where=where, fix="write the list as plain text")
    if " " in line and ":=" not in line and os.path.isfile(line):
        return [line]
    if "'" not in line and '"' not in line:
        return line.split()
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(
            f"the line has an open quote: {line[:200]!r}", where=where, fix="close the quote"
        ) from error


def _size(path: Path, where: str) -> int:
    try:
        with open_file(path) as file:
            return os.fstat(file.fileno()).st_size
    except StorageError as error:
        folders = Path(where.rpartition(":")[0]).absolute().parents
        near = next((folder for folder in folders if os.path.isfile(folder / path)), None)
        fix = FIX_PATH if near is None else f"run the tool in {near}, where the path starts"
        code = "XD803" if isinstance(error.__cause__, FileNotFoundError) else "XD801"
        raise StorageError(f"{path}: {error.problem}", where=where, fix=fix, code=code) from error


def _checked(path: Path, tensor: Tensor, native: bool, where: str) -> InputFile:
    size = _size(path, where)
    _refuse_picture(path, where)
    if path.suffix == ".npy":
        return _checked_npy(path, tensor, native, where)
    is_stored = native or array_files.holds_integers(tensor)
    if is_stored and not native:
        native = _holds_stored(path, size, tensor)
    shape = _shape(size, tensor, native)
    if shape is None:
        unit = _nbytes(tensor, array_files.unit_shape(tensor), is_stored)
        kind = tensor.dtype.name if is_stored else "float32"
        problem, fix = array_files.size_problem(path, size, unit, tensor, kind)
        raise UsageError(problem, where=where, fix=fix, code="XD206")
    return InputFile(path, tensor, native, shape)


def _nbytes(tensor: Tensor, shape: array_files.Shape, native: bool) -> int:
    return tensor.dtype.nbytes(shape) if native else 4 * math.prod(shape)


def _shape(size: int, tensor: Tensor, native: bool) -> array_files.Shape | None:
    """Return the shape of a raw file by its size; None if it does not fit."""
    unit = array_files.unit_shape(tensor)
    return array_files.of_size(
        size, _nbytes(tensor, tensor.shape, native), _nbytes(tensor, unit, native), tensor
    )


def _holds_stored(path: Path, size: int, tensor: Tensor) -> bool:
    """Return whether a raw file contains integers or bools instead of float32."""
    if _shape(size, tensor, native=False) is None:
        return True
    if _shape(size, tensor, native=True) is None or tensor.dtype.bits < _WORD:
        return False
    with open_file(path) as file:
        values = np.fromfile(file, "<f4")
    return not np.any(np.isfinite(values) & (np.abs(values) >= _LEAST_FLOAT))


def _checked_npy(path: Path, tensor: Tensor, native: bool, where: str) -> InputFile:
    try:
        array = array_files.load(path)
    except StorageError as error:
        error.problem, error.where = f"{path}: {error.problem}", where
        raise
    shape = array_files.of_array(array.shape, tensor)
    if shape is None or array.dtype.kind not in "biuf":
        raise UsageError(
            f"{path} has shape {list(array.shape)} ({array.dtype}), but input {tensor.name!r} needs "
            f"{array_files.shown(tensor)}",
            where=where,
            fix=array_files.shape_fix(array.shape, tensor.shape, tensor.dynamic_axes)
            if array.dtype.kind in "biuf"
            else "save an array of numbers in the shape of the input",
            code="XD206",
        )
    return InputFile(path, tensor, native, shape)


def _grouped(lines: Sequence[Mapping[str, InputFile]], graph: Graph, where: str) -> Iterator[Inference]:
    batches = {tensor.shape[0] for tensor in graph.inputs if tensor.shape}
    single = [
        all(not file.tensor.dynamic_axes and file.shape != file.tensor.shape for file in line.values())
        for line in lines
    ]
    if len(batches) == 1 and all(single):
        (batch,) = batches
        for start in range(0, len(lines), batch):
            yield Inference(tuple(lines[start : start + batch]), batch)
        return
    for line in lines:
        for file in line.values():
            if not file.tensor.dynamic_axes and file.shape != file.tensor.shape:
                raise UsageError(
                    f"{file.path} holds one item of a batch of {file.tensor.shape[0]}, but other files "
                    "hold whole batches",
                    where=where,
                    fix="give single items for all inputs and lines, or whole batches for all",
                )
        yield Inference((line,), None)
