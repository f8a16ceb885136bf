"""The node tests of the onnx package through a DLC on disk, beside onnxruntime.

    python bench/conformance.py
    python bench/conformance.py --filter 'conv|pool' --reasons --json out.json

Ours: model file, converter, DLC on disk, read back, host runtime; shapes are bound no further than the
test's model binds them.  onnxruntime gets the test's model itself.  Both are compared with the test's
expected outputs as the onnx package compares: number, shape and dtype equal, values within the test's own
tolerances.  An output that the DLC holds in fixed point is read as the model gives it: as stored
integers, or as the numbers that they stand for.

Counted are the tests whose inputs and outputs are all tensors of numbers or booleans.  Those with a
sequence, an optional or strings are not, nor those that draw random numbers: their expected values come
from another generator, and no implementation can meet them.  Nor are those of DISPUTED.

    right     every output is the expected one
    wrong     accepted, but some output differs
    refused   an error that says why
    crashed   anything else: a traceback, a dead process
    timeout   no verdict within the time limit

Ends with status 1 if ours has any test wrong, crashed or timed out.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import sys
import tempfile
import textwrap
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.runner import Runner
from references import run_as
from tqdm import tqdm
from workers import grouped, run

import xdlc

VERDICTS = ("right", "wrong", "refused", "crashed", "timeout")
ENGINES = ("ours", "onnxruntime")
RANDOM = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
# Expected are values for a fraction of an element, 2.4 of 4 x 0.6, as length_resized; by the text of Resize
# that is the length of the result, as onnxruntime and PyTorch, which writes such nodes, have it.
DISPUTED = {
    "test_resize_downsample_scales_cubic_align_corners",
    "test_resize_downsample_scales_linear_align_corners",
}
# Kinds of the types that numpy itself has; the others are those of ml_dtypes.
NUMPY_KINDS = "fiub"


def all_tests() -> dict[str, Any]:
    """Return the onnx package's node tests by name."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return {test.name: test for test in load_model_tests(kind="node")}


def is_plain(test: Any) -> bool:
    """Return whether all inputs and outputs are tensors of numbers or booleans."""
    return all(
        value.type.WhichOneof("value") == "tensor_type"
        and value.type.tensor_type.elem_type != onnx.TensorProto.STRING
        for value in (*test.model.graph.input, *test.model.graph.output)
    )


def has_small_types(test: Any) -> bool:
    """Return whether an input or output is of 8-bit floats, or of less than 8 bits."""
    values = (*test.model.graph.input, *test.model.graph.output)
    names = {onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type) for value in values}
    return any(re.fullmatch(r"FLOAT[48]E.*|U?INT[24]", name) for name in names)


def is_random(test: Any) -> bool:
    """Return whether a test draws random numbers, also by a training Dropout."""
    types = {node.op_type for node in test.model.graph.node}
    if types & RANDOM:
        return True
    if "Dropout" not in types or not test.name.startswith("test_training_dropout"):
        return False
    expected, given = array(test.data_sets[0][1][0]), array(test.data_sets[0][0][0])
    return not np.array_equal(expected, given)


def array(value: Any) -> Any:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def is_narrow(dtype: Any) -> bool:
    """Return whether numpy lacks a type that the package does not handle itself."""
    return dtype.kind not in NUMPY_KINDS and dtype.name != "bfloat16"


def compare(test: Any, expected: Sequence[Any], found: Sequence[Any]) -> None:
    """Raise an AssertionError if outputs differ by the onnx package's own rule."""
    pairs = []
    for ours, theirs in zip(found, expected, strict=True):
        if ours.dtype == theirs.dtype and is_narrow(theirs.dtype):
            ours, theirs = ours.astype(np.float32), theirs.astype(np.float32)
        pairs.append((theirs, ours))
    Runner.assert_similar_outputs(
        [theirs for theirs, _ in pairs], [ours for _, ours in pairs], test.rtol, test.atol, test.name
    )


def run_ours(test: Any, folder: Path) -> tuple[str, str]:
    """Return our verdict and the reason."""
    source, target = folder / "model.onnx", folder / "model.dlc"
    source.write_bytes(test.model.SerializeToString())
    target.unlink(missing_ok=True)
    stage = "convert"
    try:
        xdlc.convert(source).save(target)
        stage = "load"
        model = xdlc.load(target)
        for inputs, outputs in test.data_sets:
            names = [value.name for value in test.model.graph.input]
            feeds = {name: array(value) for name, value in zip(names, inputs, strict=True)}
            stage = "run"
            expected = {
                value.name: array(given)
                for value, given in zip(test.model.graph.output, outputs, strict=True)
            }
            found = run_as(model, feeds, {name: value.dtype for name, value in expected.items()})
            compare(test, list(expected.values()), [np.asarray(found[name]) for name in expected])
    except xdlc.XdlcError as error:
        return "refused", f"{stage}: {reason_of(error)}"
    except AssertionError as error:
        return "wrong", " ".join(str(error).split())
    return "right", ""


def reason_of(error: xdlc.XdlcError) -> str:
    """Return the kinds of problems that an error lists, without their places."""
    problems = getattr(error, "problems", None) or [error]
    return "; ".join(dict.fromkeys(f"{type(each).__name__}: {each.problem}" for each in problems))


def ort_value(array: Any) -> Any:
    """Return an array of any type as onnxruntime's ``OrtValue``."""
    import onnxruntime as ort

    proto = onnx.numpy_helper.from_array(array)
    value = ort.OrtValue.ortvalue_from_shape_and_type(array.shape, proto.data_type)
    ctypes.memmove(value.data_ptr(), proto.raw_data, len(proto.raw_data))
    return value


def numpy_value(value: Any) -> Any:
    """Return what onnxruntime gives out as an array of any type."""
    if not value.is_tensor():
        raise AssertionError(f"an output is {value.data_type()}")
    size = value.tensor_size_in_bytes()
    data = ctypes.string_at(value.data_ptr(), size) if size else b""
    proto = onnx.TensorProto(data_type=value.element_type(), dims=value.shape(), raw_data=data)
    return onnx.numpy_helper.to_array(proto)


def run_onnxruntime(test: Any) -> tuple[str, str]:
    """Return onnxruntime's verdict on the model itself, and the reason."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        proto = test.model.SerializeToString()
        session = ort.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
        for inputs, outputs in test.data_sets:
            names = [value.name for value in test.model.graph.input]
            feeds = {name: ort_value(array(value)) for name, value in zip(names, inputs, strict=True)}
            results = session.run_with_ort_values([value.name for value in test.model.graph.output], feeds)
            compare(test, [array(value) for value in outputs], list(map(numpy_value, results)))
    except AssertionError as error:
        return "wrong", " ".join(str(error).split())
    except Exception as error:  # onnxruntime has one class for each of its status codes, without a base
        return "refused", " ".join(str(error).split())
    return "right", ""


TESTS: dict[str, Any] = {}  # filled before the workers fork


def judge(item: tuple[str, str]) -> tuple[str, str]:
    """Return an engine's verdict on a test and the reason."""
    name, engine = item
    if engine == "onnxruntime":
        return run_onnxruntime(TESTS[name])
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        return run_ours(TESTS[name], Path(folder))


def measure(names: Sequence[str], *, processes: int = 2, seconds: float = 60.0) -> list[dict[str, Any]]:
    """Return name, engines' verdicts, reason and op types of each test."""
    items = [(name, engine) for name in names for engine in ENGINES]
    verdicts = {}
    for outcome in tqdm(
        run(judge, items, processes=processes, seconds=seconds), total=len(items), disable=None
    ):
        verdicts[outcome.item] = (outcome.end, outcome.reason) if outcome.end else outcome.result
    return [
        {
            "name": name,
            **{engine: verdicts[name, engine][0] for engine in ENGINES},
            **{f"reason_{engine}": verdicts[name, engine][1] for engine in ENGINES[1:]},
            "reason": verdicts[name, "ours"][1],
            "ops": sorted({node.op_type for node in TESTS[name].model.graph.node}),
        }
        for name in names
    ]


def table(title: str, entries: Sequence[Mapping[str, Any]]) -> None:
    print(f"\n{title}: {len(entries)}")
    print(f"{'':12}" + "".join(f"{verdict:>9}" for verdict in VERDICTS))
    for engine in ENGINES:
        counts = Counter(entry[engine] for entry in entries)
        print(f"{engine:12}" + "".join(f"{counts[verdict]:>9}" for verdict in VERDICTS))


def report(entries: Sequence[Mapping[str, Any]], *, reasons: bool) -> None:
    """Print counts, what is wrong, then the refusals if requested."""
    table("all types", entries)
    usual = [entry for entry in entries if not has_small_types(TESTS[entry["name"]])]
    table("without inputs and outputs of 8-bit floats or of less than 8 bits", usual)
    for verdict in ("wrong", "crashed", "timeout"):
        for entry in entries:
            if entry["ours"] == verdict:
                ops = ", ".join(entry["ops"])
                print(f"\n{verdict}: {entry['name']} ({ops}; onnxruntime: {entry['onnxruntime']})")
                print(textwrap.indent(entry["reason"].strip(), "    "))
    if reasons:
        refused = {entry["name"]: entry["reason"] for entry in entries if entry["ours"] == "refused"}
        print(f"\nrefused: {len(refused)}")
        for reason, names in grouped(refused):
            print(f"\n{len(names):5}  {reason}")
            print(textwrap.fill(" ".join(names), 110, initial_indent=" " * 7, subsequent_indent=" " * 7))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--filter", default="", metavar="REGEX", help="only tests whose name it is found in")
    parser.add_argument("--reasons", action="store_true", help="list the refused tests, by reason")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts, one entry a test")
    parser.add_argument("--processes", type=int, default=2, help="worker processes (default: 2)")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of one test (default: 60)")
    options = parser.parse_args()
    tests = all_tests()
    plain = {name: test for name, test in tests.items() if is_plain(test)}
    counted = {name: test for name, test in plain.items() if name not in DISPUTED}
    TESTS.update((name, test) for name, test in counted.items() if not is_random(test))
    names = [name for name in TESTS if re.search(options.filter, name)]
    print(
        f"onnx {onnx.__version__}, {len(tests)} node tests: {len(tests) - len(plain)} not of plain tensors, "
        f"{len(plain) - len(counted)} disputed, {len(counted) - len(TESTS)} draw random numbers, "
        f"{len(TESTS)} count; run: {len(names)}"
    )
    entries = measure(names, processes=options.processes, seconds=options.seconds)
    report(entries, reasons=options.reasons)
    if options.json:
        options.json.write_text(json.dumps(entries, indent=1) + "\n")
    return int(any(entry["ours"] in ("wrong", "crashed", "timeout") for entry in entries))


if __name__ == "__main__":
    sys.exit(main())
