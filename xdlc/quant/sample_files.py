"""Reader of samples in .npy and .npz files, one at a time in memory, however large the file."""

from __future__ import annotations

import lzma
import weakref
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from xdlc.errors import StorageError, UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import Graph, Tensor
from xdlc.ir.files import open_file
from xdlc.ir.zip_files import open_zip
from xdlc.runtime import array_files
from xdlc.runtime.array_files import fits, is_permuted, shape_fix

if TYPE_CHECKING:
    import numpy as np

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
"""What reading a damaged file may raise."""


@dataclass(frozen=True, slots=True)
class _Column:
    """The values of one input for all samples.

    Attributes:
        open: Opens the array's file at its start.
        tensor: The input.
        count: Number of samples.
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
        import numpy as np

        done = 0
        try:
            array = np.empty(self.shape, self.dtype)
            wanted = array.reshape(-1).view(np.uint8)
            while done < array.nbytes:
                piece = file.read(array.nbytes - done)
                if not piece:
                    raise EOFError("it ends too early")
                wanted[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
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
                fix="save as many samples of each input",
            )
        if not any(counts.values()):
            raise UsageError("holds no sample", where=str(path), fix="save at least one; 32 is usual")

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
            f"holds one array, and the model has {len(graph.inputs)} inputs",
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
            hint = nearest_names(name, inputs) or f"inputs: {', '.join(inputs)}"
            problems.append(UsageError(f"the model has no input {name!r}", where=str(path), fix=hint))
    columns = []
    for name, tensor in inputs.items():
        if name not in members and name in optional:
            continue
        if name not in members:
            fix = f"save an array of that name; those there are: {', '.join(members) or 'none'}"
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
            "is in column-major order, which cannot be read sample by sample",
            where=where,
            fix="save numpy.ascontiguousarray(array)",
        )
    found = _divided(shape, tensor)
    if found is None:
        raise UsageError(
            f"has shape {list(shape)}, input {tensor.name!r} has {list(tensor.shape)}",
            where=where,
            fix=_fix(shape, tensor),
        )
    return _Column(opened, tensor, *found, dtype, where)


def _divided(shape: tuple[int, ...], tensor: Tensor) -> tuple[int, tuple[int, ...]] | None:
    """Return the number of samples in an array and the shape of one, or None if it does not fit."""
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
    """Return how an array of another shape is made one of samples."""
    if len(shape) > 1 and is_permuted(shape[1:], tensor.shape):
        lead = shape[:1] if len(shape) == tensor.rank else (*shape[:1], *tensor.shape[:1])
        fix = shape_fix(shape, (*lead, *tensor.shape[1:]))
        return fix.replace("give", "save", 1)
    return f"save an array of shape [samples, {', '.join(map(str, tensor.shape))}]"


def _header(file: IO[bytes], where: str) -> array_files.Header:
    """Read the header of an array; return its shape, whether it is column-major, and its dtype."""
    try:
        return array_files.read_header(file, where)
    except _DAMAGE as error:
        raise _unreadable(where, error) from error


def _unreadable(where: str, error: Exception) -> StorageError:
    return array_files.unreadable(where, str(getattr(error, "strerror", None) or error))
