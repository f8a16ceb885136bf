"""Reproducer: the smallest part of a graph that still shows a fault."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdlc.compare.engines import Values
from xdlc.errors import BackendError, UsageError, XdlcError
from xdlc.ir import ArrayData, Model, Op, Tensor
from xdlc.ir.data import Array
from xdlc.ir.files import make_folder, read_bytes, replace_file, replace_text
from xdlc.ir.partitions import leaving, partition_of
from xdlc.ir.quantization import to_float
from xdlc.options.running import SHELL_LINE

_SUFFIXES = (".raw", "_native.raw")


def file_name(tensor: str) -> str:
    """Return the name of a tensor as that of a file."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", tensor)


class RawResults:
    """Results of a net run: ``Result_N/<tensor>.raw``, float32 or of own types.

    A slash in a tensor's name makes a folder, or is an underscore, as with the vendor's tools.

    Args:
        model: The DLC that ran.

    Raises:
        UsageError: If the first result has no tensor of the DLC.
    """

    def __init__(self, folder: str, model: Model) -> None:
        self._folder, self._model = Path(folder), model
        self.title = f"results in {folder}"
        tensors = [tensor for op in model.main.ops for tensor in op.outputs]
        self.names: Collection[str] = [tensor.name for tensor in tensors if self._path(tensor, 0) is not None]
        if not self.names:
            raise UsageError(
                "the folder has no raw file for any tensor of the DLC",
                where=folder,
                fix="pass the folder that holds Result_0, from a run that wrote all tensors",
            )

    def values(self, feeds: Values, names: Sequence[str], sample: int = 0) -> dict[str, Array]:
        """Return the values of tensors of a result by name."""
        del feeds
        return {name: self._read(self._model.main.tensors[name], sample) for name in names}

    def _path(self, tensor: Tensor, sample: int) -> Path | None:
        result = self._folder / f"Result_{sample}"
        if not result.is_dir() and sample:
            return None
        base = result if result.is_dir() else self._folder
        names = (tensor.name, file_name(tensor.name))
        for name in names:
            if ".." in name.split("/") or name.startswith("/"):
                continue
            for suffix in _SUFFIXES:
                path = base / f"{name}{suffix}"
                if os.path.isfile(path):  # False for a name that no file can have
                    return path
        return None

    def _read(self, tensor: Tensor, sample: int) -> Array:
        import numpy as np

        path = self._path(tensor, sample)
        if path is None:
            where = str(self._folder / f"Result_{sample}")
            fix = "pass one sample for each result"
            raise UsageError(f"the results have no tensor {tensor.name!r}", where=where, fix=fix)
        own = tensor.dtype.numpy
        is_native = path.name.endswith("_native.raw")
        data = read_bytes(path, 8 * tensor.size)
        is_real = not is_native and (tensor.dtype.is_fixed or len(data) == 4 * tensor.size)
        dtype = own if is_native or not is_real else np.dtype("<f4")
        size = dtype.itemsize * tensor.size
        if len(data) != size:
            problem = f"has {len(data)} bytes, but {list(tensor.shape)} of {dtype} needs {size}"
            raise UsageError(problem, where=str(path), fix="run the DLC again")
        values = np.frombuffer(data, dtype).reshape(tensor.shape)
        if is_native and tensor.dtype.is_fixed and tensor.encoding is not None:
            return to_float(values, tensor.encoding, where=str(path))
        return values


Shows = Callable[[Model, float], bool]
"""Whether a model shows a fault within some seconds of compiling and of running."""
FeedsOf = Callable[[Sequence[str]], Mapping[str, Array]]
MOST_TRIALS = 400
WHOLE, SHORTEST = 1800.0, 20.0
"""Seconds that a whole may compile, and run; least that a part may."""
RESULTS = "expected"
"""Folder of the right values."""


@dataclass(frozen=True, slots=True)
class Reproducer:
    """The smallest part found.

    Attributes:
        model: The part, whose inputs are tensors of the whole graph.
        trials: Number of parts that were tried.
        is_least: Whether it needs each of its ops.
    """

    model: Model
    trials: int
    is_least: bool


def part_of(model: Model, ops: Sequence[Op]) -> Model:
    """Return a model of some ops of the main graph."""
    graph = model.main
    outputs = leaving(graph, ops, (tensor.name for tensor in graph.outputs))
    part = partition_of(graph, ops, outputs)
    others = {name: held for name, held in model.graphs.items() if held is not graph}
    return Model({part.name: part, **others}, {"history": model.metadata.get("history", [])})


def reduced(model: Model, shows: Shows, *, most: int = MOST_TRIALS) -> Reproducer | None:
    """Return the smallest part that shows a fault; None if the whole does not.

    Args:
        shows: Whether a model shows it; errors that it raises are its own. A part may take twice as long as
            the whole.
        most: Number of parts to try at most.
    """
    ops = list(model.main.ops)
    start = time.monotonic()
    if not shows(part_of(model, ops), WHOLE):
        return None
    seconds = max(SHORTEST, 2 * (time.monotonic() - start))
    trials, pieces = 1, 2
    while len(ops) > 1 and trials < most:
        size = -(-len(ops) // pieces)
        runs = [ops[start : start + size] for start in range(0, len(ops), size)]
        rests = [[op for op in ops if op not in set(run)] for run in runs] if pieces > 2 else []
        for kept in [*runs, *rests]:
            trials += 1
            if kept and len(kept) < len(ops) and shows(part_of(model, kept), seconds):
                ops = kept
                pieces = 2 if kept in runs else max(pieces - 1, 2)
                break
            if trials >= most:
                break
        else:
            if pieces >= len(ops):
                return Reproducer(part_of(model, ops), trials, is_least=True)
            pieces = min(2 * pieces, len(ops))
    return Reproducer(part_of(model, ops), trials, is_least=len(ops) == 1)


def fails(soc: str, feeds_of: FeedsOf, like: BackendError) -> Shows:
    """Return whether compiling or running a model for a SoC fails as before.

    Args:
        feeds_of: Returns the values of tensors of the whole graph by name.
        like: The failure before.
    """

    def shows(model: Model, seconds: float) -> bool:
        try:
            _outputs(model, soc, feeds_of, seconds)
        except BackendError as error:
            return kind_of(error) == kind_of(like)
        except XdlcError:  # another problem of a part
            return False
        return False

    return shows


def _outputs(
    model: Model, soc: str, feeds_of: FeedsOf, seconds: float
) -> tuple[dict[str, Array], Mapping[str, Array]]:
    """Return the outputs of a model on a SoC and its feeds, in a child process."""
    from xdlc.compare.engines import HtpEngine

    feeds = feeds_of([tensor.name for tensor in model.main.inputs])
    engine = HtpEngine(model, soc, until=time.monotonic() + seconds)
    try:
        return engine.values(feeds, [tensor.name for tensor in model.main.outputs]), feeds
    finally:
        engine.close()


def kind_of(error: BackendError) -> str:
    """Return the signal or number by which failures of the compiler are alike."""
    numbers = re.findall(r"SIG[A-Z]+|\b1\d{3}\b|did not end", str(error))
    return numbers[0] if numbers else type(error).__name__


def with_noise(model: Model, seed: int = 0) -> Model:
    """Return a copy whose real weights are noise of a seed.

    Noise has the mean and the deviation of a tensor's weights, and stays between their extremes, so that
    encodings hold.  Indices and shapes stay.
    """
    import numpy as np

    copy = model.clone()
    random = np.random.default_rng(seed)
    for graph in copy.graphs.values():
        for tensor in graph.tensors.values():
            if tensor.data is None or tensor.dtype.numpy.kind not in "fiu" or tensor.size < 2:
                continue
            if tensor.dtype.numpy.kind in "iu" and not tensor.dtype.is_fixed:
                continue  # indices and shapes
            values = tensor.numpy()
            finite = values[np.isfinite(values)].astype(np.float64)
            if not finite.size:
                continue
            noise = random.normal(finite.mean(), finite.std(), values.shape)
            noise = noise.clip(finite.min(), finite.max())
            noise = np.rint(noise) if tensor.dtype.is_fixed else noise
            tensor.data = ArrayData(noise.astype(values.dtype))
    return copy


def differs(soc: str, feeds_of: FeedsOf, least: float) -> Shows:
    """Return whether an output of a model differs on a SoC from this machine's.

    Args:
        feeds_of: Returns the values of tensors of the whole graph by name.
        least: SQNR in dB below which it differs.
    """
    from xdlc.compare.engines import HostEngine
    from xdlc.compare.figures import Difference

    def shows(model: Model, seconds: float) -> bool:
        try:
            results, feeds = _outputs(model, soc, feeds_of, seconds)
            right = HostEngine(model).values(feeds, list(results))
        except XdlcError:
            return False
        differences = [Difference() for _ in results]
        for (name, values), difference in zip(results.items(), differences, strict=True):
            difference.add(right[name], values)
        return any(difference.figures().db < least for difference in differences)

    return shows


def write(
    part: Model, folder: Path, feeds: Mapping[str, Array], candidate: str, expected: Mapping[str, Array]
) -> list[Path]:
    """Write a part with its inputs, and a script that shows the fault from any folder.

    Args:
        part: The part, which is written as DLC and as ONNX model.
        folder: Where to; it is made.
        feeds: Values of its inputs.
        candidate: The engine that is wrong, in the words of the debugger.
        expected: The right values of tensors; none: those of this machine.
    """
    from xdlc.runtime.export import export

    results = folder / RESULTS
    make_folder(results if expected else folder)
    dlc, onnx, listing, script = (folder / name for name in ("part.dlc", "part.onnx", "list.txt", "run.sh"))
    part.save(dlc)
    files = {name: folder / f"input_{number}.raw" for number, name in enumerate(feeds)}
    paths = [dlc, *export(part, onnx), *files.values(), listing, script]
    for name, path in files.items():
        replace_file(path, _raw(part, name, feeds[name]))
    for name, array in expected.items():
        paths.append(results / f"{file_name(name)}.raw")
        replace_file(paths[-1], _raw(part, name, array))
    words = (shlex.quote(f"{name}:={path.name}") for name, path in files.items())
    replace_text(listing, " ".join(words) + "\n")
    line = SHELL_LINE.format(RESULTS if expected else "cpu", shlex.quote(candidate))
    text = f'#!/bin/sh\ncd "$(dirname "$0")" || exit\n{line}\n'
    replace_text(script, text, executable=True)
    return paths


def _raw(part: Model, name: str, array: Array) -> bytes:
    """Return the values of a tensor as raw files hold them."""
    dtype = part.main.tensors[name].dtype
    content: bytes = array.astype("<f4" if dtype.is_float or dtype.is_fixed else dtype.numpy).tobytes()
    return content
