"""Calibration samples: from any source, read as often as algorithms need.

Those of .npy and .npz files are read one at a time, however large the file.
"""

from __future__ import annotations

import lzma
import os
import weakref
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from xdlc.errors import StorageError, UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import Graph, Tensor
from xdlc.ir.data import Array
from xdlc.ir.files import open_file
from xdlc.ir.quantization import to_float, to_quantized
from xdlc.ir.zip_files import open_zip
from xdlc.options import spell
from xdlc.runtime import array_files
from xdlc.runtime.array_files import fits, is_permuted, shape_fix
from xdlc.runtime.cpu import array_of, feeds_of
from xdlc.runtime.input_list import read_input_list
from xdlc.worker.temporary import TemporaryFolder

Sample: TypeAlias = Mapping[str, "np.ndarray"]
HELD_OUT = 5
"""One sample in this many is held out."""

Source: TypeAlias = Iterable[Any] | str | os.PathLike[str]
"""Samples in any form that ``read_samples`` takes."""


def read_samples(source: Source, graph: Graph, *, optional: Collection[str] = ()) -> Iterable[Sample]:
    """Return samples by input name; the result has a length where the source has one.

    Args:
        source: Mappings of input name to array, or arrays for a graph with one input, in any iterable;
            or the path of an ``.npz`` or ``.npy`` file (:class:`FileSamples`), or of an input list
            (:mod:`xdlc.runtime.input_list`).
        optional: Inputs that samples need not have.

    Raises:
        StorageError: If a file cannot be read.
        UsageError: If the source or a file does not fit the inputs; several problems make a ProblemList.

    Example:
        >>> import numpy as np
        >>> from xdlc.ir import Tensor
        >>> from xdlc.ir.dtype import FLOAT32
        >>> graph = Graph("g")
        >>> _ = graph.add_input(Tensor("x", (2,), FLOAT32))
        >>> [sample["x"].tolist() for sample in read_samples([np.ones(2)], graph)]
        [[1.0, 1.0]]
    """
    if isinstance(source, str | os.PathLike):
        return from_list(Path(source), graph, optional=optional)
    if isinstance(source, Mapping):
        raise UsageError("samples is a mapping, not a list", fix="pass samples=[{name: array}, ...]")
    if not isinstance(source, Iterable):
        raise UsageError(
            f"samples is of type {type(source).__name__}",
            fix="pass a list of mappings {name: array}, or a path",
        )

    def named(sample: Any, number: int) -> Sample:
        if isinstance(sample, Mapping):
            return sample
        needed = [tensor.name for tensor in graph.inputs if tensor.name not in optional]
        if hasattr(sample, "__array__") and len(needed) == 1:
            return {needed[0]: sample}
        names = ", ".join(needed)
        raise UsageError(
            f"calibration sample {number} is of type {type(sample).__name__}",
            fix=f"give a mapping {{name: array}} with one array for each of: {names}",
        )

    return mapped(source, named)


def mapped(source: Iterable[Any], function: Callable[[Any, int], Sample]) -> Iterable[Sample]:
    """Return the results of a function for each item and its number.

    They can be read as often as the source.
    """
    if iter(source) is source:
        return (function(item, number) for number, item in enumerate(source))
    return (_Sized if isinstance(source, Sized) else _Each)(source, function)


def as_stored(samples: Iterable[Sample], graph: Graph) -> Iterable[Sample]:
    """Return samples whose floats are rounded to the encodings of quantized inputs.

    What holds NaN or infinite values is refused by those that read it.
    """
    stored = {tensor.name: tensor for tensor in graph.inputs if tensor.dtype.is_fixed and tensor.encoding}

    def rounded(name: str, value: Any) -> Any:
        tensor, array = stored.get(name), array_of(value)
        if (
            tensor is None
            or tensor.encoding is None
            or array.dtype.kind != "f"
            or not np.isfinite(array).all()
        ):
            return value
        return to_float(to_quantized(array, tensor), tensor.encoding, where=name)

    def of_sample(sample: Sample, _: int) -> Sample:
        return {name: rounded(name, value) for name, value in sample.items()}

    return mapped(samples, of_sample) if stored else samples


def from_list(
    path: Path | None, graph: Graph, *, native: bool = False, optional: Collection[str] = ()
) -> Iterable[Sample]:
    """Return the samples of an input list, or of an ``.npz`` or ``.npy`` file.

    Without a path there are none.

    Args:
        native: Whether raw files hold the inputs' stored types instead of float32.
        optional: Inputs that samples need not have.

    Raises:
        StorageError: If a file cannot be read.
        UsageError: If it does not fit the inputs; several problems make a ProblemList.
    """
    if path is None:
        return ()
    if path.suffix in (".npz", ".npy"):
        return FileSamples(path, graph, optional)
    inferences = read_input_list(path, graph, native=native, optional=optional).inferences
    return _Sized(inferences, lambda inference, _: inference.feeds())


class _Each:
    """Results of a function for each item of an iterable."""

    def __init__(self, items: Iterable[Any], function: Callable[[Any, int], Sample]) -> None:
        self._items = items
        self._function = function

    def __iter__(self) -> Iterator[Sample]:
        return (self._function(item, number) for number, item in enumerate(self._items))


class _Sized(_Each):
    """Results of a function for each item of a sized iterable."""

    def __len__(self) -> int:
        return len(self._items)  # type: ignore[arg-type]


def is_held_out(number: int) -> bool:
    """Return whether a sample is held out for measuring, by its number."""
    return number % HELD_OUT == HELD_OUT - 1


class Samples:
    """Samples in order; samples of an iterator are stored on disk while they are read."""

    def __init__(self, source: Iterable[Sample], *, again: bool = True) -> None:
        self._source = source
        self._folder: TemporaryFolder | None = None
        self._paths: list[Path] = []
        self._once = again and iter(source) is source

    @property
    def count(self) -> int:
        """The number of samples; 0 where the source has no length."""
        return len(self._source) if isinstance(self._source, Sized) else 0

    def __enter__(self) -> Samples:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def __iter__(self) -> Iterator[Sample]:
        if not self._once:
            yield from self._source
            return
        if self._folder is None:
            self._folder = TemporaryFolder("xdlc-samples-")
        for path in self._paths:
            yield _stored(path)
        for sample in self._source:
            self._paths.append(Path(self._folder.name, f"{len(self._paths)}.npz"))
            _write(self._paths[-1], sample)
            yield sample

    def first(self, count: int) -> list[Sample]:
        """Return at most ``count`` samples from the start."""
        return list(islice(self, count))


def check_held_out(samples: Samples, graph: Graph) -> None:
    """Check the first held-out sample before the work begins.

    Raises:
        UsageError: If it does not fit the graph, or there are no samples.
    """
    first = next(iter(samples), None)
    if first is None:
        raise UsageError("holds no sample", where=spell("report_list"), fix="give at least one sample")
    with _placed("held-out sample 0"):
        feeds_of(graph, first)


def run_sample(session: Any, sample: Sample, place: str) -> dict[str, Array]:
    """Return the results of a session for a sample; its errors begin with ``place``.

    Raises:
        XdlcError: As the session does.
    """
    with _placed(place):
        results: dict[str, Array] = session.run(sample)
    return results


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """Begin the place of errors with that of a sample."""
    try:
        yield
    except XdlcError as error:
        error.where = f"{place}: {error.where}" if error.where else place
        raise


def plain(sample: Sample) -> dict[str, Array]:
    """Return a sample as arrays of numbers.

    Raises:
        UsageError: If a value is not an array of numbers.
    """
    arrays = {name: array_of(value) for name, value in sample.items()}
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise UsageError(
                f"holds {type(sample[name]).__name__}, not an array of numbers",
                where=f"calibration sample, input {name!r}",
                fix="pass a numpy array",
            )
    return arrays


def _write(path: Path, sample: Sample) -> None:
    """Store a sample in a file of plain arrays."""
    arrays = plain(sample)
    numbered = {str(at): array for at, array in enumerate(arrays.values())}
    np.savez(path, allow_pickle=False, names=np.array(list(arrays)), **numbered)


def _stored(path: Path) -> dict[str, Array]:
    """Return the sample that ``_write`` stored."""
    with np.load(path, allow_pickle=False) as arrays:
        return {str(name): arrays[str(at)] for at, name in enumerate(arrays["names"])}


_UNNAMED = "arr_0"
"""Name of an array that numpy saved without one."""

_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    MemoryError,
    RuntimeError,  # an encrypted or unknown compression
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
"""Errors that reading a damaged file may raise."""


@dataclass(frozen=True, slots=True)
class _Column:
    """The values of one input for all samples.

    Attributes:
        open: Opens the array's file at its start.
        tensor: The input.
        shape: Shape of one.
        dtype: Its numpy dtype.
        where: The file, and the array in it, for errors.
    """

    open: Callable[[], IO[bytes]]
    tensor: Tensor
    count: int
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    where: str

    def read(self, file: IO[bytes]) -> np.ndarray:
        """Return the next sample of an open file whose header has been read."""
        done = 0
        try:
            array = np.empty(self.shape, self.dtype)
            buffer = array.reshape(-1).view(np.uint8)
            while done < array.nbytes:
                piece = file.read(array.nbytes - done)
                if not piece:
                    raise EOFError("the file ends too early")
                buffer[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
                done += len(piece)
        except _DAMAGE as error:
            raise _unreadable(self.where, error) from error
        return array


class FileSamples:
    """Samples of a file; can be iterated over again and again.

    Args:
        path: The file: ``.npz`` with an array for each input by name, or ``.npy`` for the only input.  The
            first axis counts samples; a leading 1 of the input's shape may be omitted after it, and
            of an input of batch B > 1 the first axis may count items, B to a sample.
        optional: Inputs that the file need not have.

    Raises:
        StorageError: If the file cannot be read.
        UsageError: If it does not fit the inputs; several problems make a ProblemList.
    """

    def __init__(self, path: Path, graph: Graph, optional: Collection[str] = ()) -> None:
        self._columns = _npz(path, graph, optional) if path.suffix == ".npz" else _npy(path, graph, optional)
        counts = {column.tensor.name: column.count for column in self._columns}
        if len(set(counts.values())) > 1:
            raise UsageError(
                "arrays differ in their number of samples: "
                + ", ".join(f"{name} has {count}" for name, count in counts.items()),
                where=str(path),
                fix="save the same number of samples for each input",
            )
        if not any(counts.values()):
            raise UsageError("holds no sample", where=str(path), fix="save 1 or more samples, if possible 32")

    def __len__(self) -> int:
        return self._columns[0].count

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        with ExitStack() as stack:
            files = []
            for column in self._columns:
                file = stack.enter_context(column.open())
                _header(file, column.where)
                files.append(file)
            for _ in range(len(self)):
                yield {
                    column.tensor.name: column.read(file)
                    for column, file in zip(self._columns, files, strict=True)
                }


def _npy(path: Path, graph: Graph, optional: Collection[str]) -> list[_Column]:
    inputs = [tensor for tensor in graph.inputs if tensor.name not in optional]
    if len(inputs) != 1:
        names = ", ".join(tensor.name for tensor in graph.inputs)
        raise UsageError(
            f"holds one array, but the model has {len(graph.inputs)} inputs",
            where=str(path),
            fix=f"save an .npz with one array for each of: {names}",
        )

    return [_column(lambda: open_file(path), inputs[0], str(path))]


def _npz(path: Path, graph: Graph, optional: Collection[str]) -> list[_Column]:
    try:
        with open_file(path) as file, open_zip(file) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
    except _DAMAGE as error:
        raise _unreadable(str(path), error) from error
    inputs = {tensor.name: tensor for tensor in graph.inputs}
    if len(inputs) == 1 and list(members) == [_UNNAMED]:
        members = {next(iter(inputs)): members[_UNNAMED]}
    problems: list[XdlcError] = []
    for name in members:
        if name not in inputs:
            hint = nearest_names(name, inputs) or f"use one of {', '.join(inputs)}"
            problems.append(UsageError(f"the model has no input {name!r}", where=str(path), fix=hint))
    columns = []
    for name, tensor in inputs.items():
        if name not in members and name in optional:
            continue
        if name not in members:
            fix = f"save an array of this name; the file has: {', '.join(members) or 'none'}"
            problems.append(UsageError(f"holds no array for input {name!r}", where=str(path), fix=fix))
            continue
        try:
            columns.append(_column(_member(path, members[name]), tensor, f"{path}: {name}"))
        except XdlcError as error:
            problems.append(error)
    raise_all(problems, where=str(path))
    return columns


def _member(path: Path, name: str) -> Callable[[], IO[bytes]]:
    def opened() -> IO[bytes]:
        try:
            file = open_file(path)
            with open_zip(file) as archive:
                member = archive.open(name)  # stays open when the archive is closed
            weakref.finalize(member, file.close)
            return member
        except _DAMAGE as error:
            raise _unreadable(f"{path}: {name}", error) from error

    return opened


def _column(opened: Callable[[], IO[bytes]], tensor: Tensor, where: str) -> _Column:
    with opened() as file:
        shape, fortran, dtype = _header(file, where)
    if dtype.kind not in "biuf":
        raise UsageError(f"holds {dtype}, not numbers", where=where, fix="save an array of numbers")
    if fortran and len([dim for dim in shape if dim > 1]) > 1:
        raise UsageError(
            "the array is in column-major order, which xdlc cannot read in parts",
            where=where,
            fix="save numpy.ascontiguousarray(array)",
        )
    division = _divided(shape, tensor)
    if division is None:
        raise UsageError(
            f"has shape {list(shape)}, but input {tensor.name!r} has {list(tensor.shape)}",
            where=where,
            fix=_fix(shape, tensor),
        )
    return _Column(opened, tensor, *division, dtype, where)


def _divided(shape: tuple[int, ...], tensor: Tensor) -> tuple[int, tuple[int, ...]] | None:
    """Return the number of samples in an array and the shape of each, or None."""
    if not shape:
        return None
    if fits(shape[1:], tensor.shape, tensor.dynamic_axes):
        return shape[0], shape[1:]
    if tensor.rank and fits(shape[1:], tensor.shape[1:], [axis - 1 for axis in tensor.dynamic_axes]):
        items = 1 if 0 in tensor.dynamic_axes else tensor.shape[0]
        if items and shape[0] % items == 0:
            return shape[0] // items, (items, *shape[1:])
    return None


def _fix(shape: tuple[int, ...], tensor: Tensor) -> str:
    """Return how to convert an array of another shape into samples."""
    if len(shape) > 1 and is_permuted(shape[1:], tensor.shape):
        lead = shape[:1] if len(shape) == tensor.rank else (*shape[:1], *tensor.shape[:1])
        fix = shape_fix(shape, (*lead, *tensor.shape[1:]))
        return fix.replace("give", "save", 1)
    return f"save an array of shape [samples, {', '.join(map(str, tensor.shape))}]"


def _header(file: IO[bytes], where: str) -> array_files.Header:
    """Return the shape, the order and the dtype of an array from its header."""
    try:
        return array_files.read_header(file, where)
    except _DAMAGE as error:
        raise _unreadable(where, error) from error


def _unreadable(where: str, error: Exception) -> StorageError:
    return array_files.unreadable(where, str(getattr(error, "strerror", None) or error))
