"""Calibration samples: from any source, read as often as algorithms need."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from xdlc.errors import UsageError, XdlcError
from xdlc.ir import Graph
from xdlc.ir.data import Array
from xdlc.ir.quantization import to_float, to_quantized
from xdlc.options import spell
from xdlc.quant.sample_files import FileSamples
from xdlc.runtime.cpu import array_of, feeds_of
from xdlc.runtime.input_list import read_input_list
from xdlc.worker.temporary import TemporaryFolder

if TYPE_CHECKING:
    import numpy as np

Sample: TypeAlias = Mapping[str, "np.ndarray"]
HELD_OUT = 5
"""Of so many samples one is held out."""

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
        raise UsageError("samples is one mapping", fix="give a list of them: samples=[{name: array}, ...]")
    if not isinstance(source, Iterable):
        raise UsageError(
            f"samples is of type {type(source).__name__}",
            fix="give a list of mappings {name: array}, or a path",
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
    """Return what a function makes of each item and its number, as often as the source can be read."""
    if iter(source) is source:
        return (function(item, number) for number, item in enumerate(source))
    return (_Sized if isinstance(source, Sized) else _Each)(source, function)


def as_stored(samples: Iterable[Sample], graph: Graph) -> Iterable[Sample]:
    """Return samples with the floats of inputs that the model has quantized rounded as it rounds them.

    What holds NaN or infinite values is refused by those that read it.
    """
    import numpy as np

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
    """Return the samples of an input list, or of an ``.npz`` or ``.npy`` file; none without a path.

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
    """What a function makes of each item of an iterable."""

    def __init__(self, items: Iterable[Any], function: Callable[[Any, int], Sample]) -> None:
        self._items = items
        self._function = function

    def __iter__(self) -> Iterator[Sample]:
        return (self._function(item, number) for number, item in enumerate(self._items))


class _Sized(_Each):
    """The same of items that are counted."""

    def __len__(self) -> int:
        return len(self._items)  # type: ignore[arg-type]


def is_held_out(number: int) -> bool:
    """Return whether the sample of this number is one to measure with, under the ranges of the others."""
    return number % HELD_OUT == HELD_OUT - 1


class Samples:
    """Samples in order; an iterator, which can be read but once, is written to disk as it is read."""

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
        """Remove what was written."""
        if self._folder is not None:
            self._folder.cleanup()

    def __iter__(self) -> Iterator[Sample]:
        if not self._once:
            yield from self._source
            return
        if self._folder is None:
            self._folder = TemporaryFolder("xdlc-samples-")
        for path in self._paths:
            yield from stored_samples(path)
        for sample in self._source:
            self._paths.append(Path(self._folder.name, f"{len(self._paths)}.npz"))
            write_samples(self._paths[-1], [sample])
            yield sample

    def first(self, count: int) -> list[Sample]:
        """Return at most ``count`` samples from the start."""
        return list(islice(self, count))


def check_held_out(samples: Samples, graph: Graph) -> None:
    """Look at the first of the samples that do not calibrate, before the work begins.

    Raises:
        UsageError: If it does not fit the graph, or there is none.
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


def write_samples(file: Path | IO[bytes], samples: Sequence[Sample]) -> None:
    """Store a few samples in one file of plain arrays.

    Raises:
        UsageError: If a value is no array of numbers.
    """
    import numpy as np

    stored = {}
    for index, sample in enumerate(samples):
        stored[f"{index}"] = np.array(list(sample))
        for place, (name, value) in enumerate(sample.items()):
            array = array_of(value)
            if array.dtype.hasobject:
                raise UsageError(
                    f"holds {type(value).__name__}, not an array of numbers",
                    where=f"calibration sample, input {name!r}",
                    fix="give a numpy array",
                )
            stored[f"{index}/{place}"] = array
    np.savez(file, allow_pickle=False, **stored)


def stored_samples(file: Path | IO[bytes]) -> Iterator[Sample]:
    """Iterate over the samples that ``write_samples`` stored."""
    import numpy as np

    if not isinstance(file, Path):
        file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        for index in range(sum("/" not in key for key in arrays)):
            names = arrays[f"{index}"]
            yield {str(name): arrays[f"{index}/{place}"] for place, name in enumerate(names)}


@dataclass(slots=True)
class KeptSample:
    """A sample, and what the float model makes of it.

    Attributes:
        number: Its number among all samples.
        sample: Arrays by input name, copies.
        floats: Values of the float model by tensor name; empty until they are given.
    """

    number: int
    sample: Sample
    floats: Mapping[str, Array] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (*self.sample.values(), *self.floats.values()))


class Spread:
    """Keeps a copy of every n-th sample, n doubling as they come.

    Args:
        most_bytes: Most bytes of what is kept; the first sample is kept whatever its size.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._stride = 1
        self.kept: list[KeptSample] = []
        self.count = 0

    def add(self, number: int, sample: Sample) -> None:
        """Count a sample, and keep it if it is its turn.

        Args:
            number: Its number among all samples, of which some may not be added.
            sample: Arrays by input name.
        """
        import numpy as np

        if self.count % self._stride == 0:
            self.kept.append(
                KeptSample(number, {name: np.array(array_of(array)) for name, array in sample.items()})
            )
            self._thin()
        self.count += 1

    def give(self, number: int, floats: Mapping[str, Array]) -> None:
        """Take what the float model makes of a sample; keep it if the sample is kept."""
        for kept in self.kept:
            if kept.number == number:
                kept.floats = floats
                self._thin()
                return

    def evenly(self, most: int) -> list[KeptSample]:
        """Return up to ``most`` of what is kept, spread evenly, the first and the last among them.

        Args:
            most: At least two.
        """
        last = len(self.kept) - 1
        if last < most:
            return self.kept
        return [self.kept[place * last // (most - 1)] for place in range(most)]

    def _thin(self) -> None:
        while len(self.kept) > 1 and self._is_too_much():
            self.kept, self._stride = self.kept[::2], self._stride * 2

    def _is_too_much(self) -> bool:
        return len(self.kept) > self._most or sum(kept.nbytes for kept in self.kept) > self._most_bytes
