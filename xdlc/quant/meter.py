"""Runs samples through the float model and measures activations on the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from xdlc.errors import ModelError, UsageError, XdlcError
from xdlc.ir import Model, Tensor
from xdlc.ir.data import Array
from xdlc.quant.measured import Measured
from xdlc.quant.ranges import Range, range_of
from xdlc.quant.samples import Sample
from xdlc.quant.statistics import DECAY, Histogram, Statistics
from xdlc.quant.taps import Reading, Taps, spread, values_each


class Meter:
    """A session of the float model that measures.

    Args:
        model: The model; encodings it has already are ignored.
        tensors: Activations to watch.
        averaged: Activations to take the mean of each channel of.
        histograms: Whether histograms are wanted.
        threads: Threads of one op; default: one per core.

    Raises:
        XdlcError: If the model cannot be run.
    """

    def __init__(
        self,
        model: Model,
        tensors: Sequence[Tensor],
        averaged: Sequence[Tensor],
        *,
        histograms: bool,
        threads: int | None = None,
    ) -> None:
        from xdlc.runtime.cpu import CpuSession

        held = [tensor for tensor in tensors if tensor.size]
        self._given = [tensor for tensor in held if tensor.producer is None]
        self._watched = [tensor for tensor in held if tensor.producer is not None]
        self._averaged = averaged
        self._limit = values_each(len(held)) if histograms else 0
        self._taps = Taps(self._watched, averaged, limit=self._limit)
        self._session = CpuSession(model, quantized=False, threads=threads, refine=self._taps)

    def measure(
        self, samples: Iterable[Sample], first: int, progress: Callable[[int], None] | None = None
    ) -> Measured:
        """Return what some samples tell.

        Args:
            samples: Arrays by input name; few, for values for histograms are kept until the last.
            first: Number of the first one among all samples.
            progress: Called with the number of samples done of all.

        Raises:
            UsageError: If a sample does not fit the inputs.
            ModelError: If a value is NaN or infinite; names tensor and sample.
        """
        total = _Total([*self._given, *self._watched], self._averaged)
        for number, sample in enumerate(samples, first):
            total.add(self._read(sample, number))
            if progress is not None:
                progress(number + 1)
        return total.measured()

    def _read(self, sample: Sample, number: int) -> Reading:
        import numpy as np

        reading = self._taps.read(self._run(sample, number))
        inputs = [np.asarray(sample[tensor.name]) for tensor in self._given]
        ranges = [range_of(array) for array in inputs]
        reading.lows = np.concatenate([[seen.low for seen in ranges], reading.lows])
        reading.highs = np.concatenate([[seen.high for seen in ranges], reading.highs])
        reading.sums = np.concatenate([reading.lows[: len(inputs)], reading.sums])
        if self._limit:
            reading.values = [*(_part(array, self._limit) for array in inputs), *reading.values]
        finite = np.isfinite(reading.lows) & np.isfinite(reading.highs) & ~np.isnan(reading.sums)
        if not finite.all():
            index = int(np.argmin(finite))
            tensor = [*self._given, *self._watched][index]
            ends = (reading.lows[index], reading.highs[index], reading.sums[index])
            raise _not_finite(tensor, number, *(float(end) for end in ends))
        return reading

    def _run(self, sample: Sample, number: int) -> dict[str, Array]:
        try:
            return self._session.run(sample)
        except XdlcError as error:
            place = f"calibration sample {number}"
            error.where = f"{place}: {error.where}" if error.where else place
            raise


class _Total:
    """What the samples of a chunk tell together."""

    def __init__(self, tensors: Sequence[Tensor], averaged: Sequence[Tensor]) -> None:
        import numpy as np

        self._tensors = tensors
        self._count = 0
        self._low = np.full(len(tensors), math.inf)
        self._high = np.full(len(tensors), -math.inf)
        self._lows, self._highs = np.zeros(len(tensors)), np.zeros(len(tensors))
        self._sums: dict[str, Array] = {tensor.name: np.zeros(tensor.shape[-1]) for tensor in averaged}
        self._values: list[list[Array]] = []

    def add(self, reading: Reading) -> None:
        import numpy as np

        self._count += 1
        self._low, self._high = np.minimum(self._low, reading.lows), np.maximum(self._high, reading.highs)
        self._lows, self._highs = self._lows * DECAY + reading.lows, self._highs * DECAY + reading.highs
        for name, total in self._sums.items():
            total += reading.means[name]
        if reading.values:
            self._values.append(reading.values)

    def measured(self) -> Measured:
        """Return it in the form that is merged."""
        import numpy as np

        found = {}
        for index, tensor in enumerate(self._tensors):
            parts = [values[index] for values in self._values]
            found[tensor.name] = Statistics(
                Range(float(self._low[index]), float(self._high[index])),
                self._count,
                float(self._lows[index]),
                float(self._highs[index]),
                Histogram.of(np.concatenate(parts)) if parts else Histogram(),
            )
        return Measured(self._count, found, self._sums)


def _part(array: Array, limit: int) -> Array:
    """Return the values of an input that go into its histogram."""
    import numpy as np

    start, stride = spread(array.size, limit)
    return np.asarray(array.reshape(-1)[start::stride], np.float32)


def _not_finite(tensor: Tensor, sample: int, low: float, high: float, total: float) -> XdlcError:
    nan = math.isnan(total) or math.isnan(low) or math.isnan(high)
    what = "NaN" if nan else f"{high if math.isinf(high) else low}"
    place = f"calibration sample {sample}, tensor {tensor.name!r}"
    if tensor.producer is None:
        return UsageError(f"holds {what}", where=place, fix="leave the sample out, or mend what makes it")
    return ModelError(
        f"the float model gives {what}, which no encoding can hold",
        where=f"{place} of op {tensor.producer.name!r} ({tensor.producer.type})",
        fix="check that samples are preprocessed as the model expects; leave such samples out",
    )
