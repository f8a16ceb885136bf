"""DLC -> ONNX -> DLC: graphs of a corpus that return the same, and differences.

    python bench/roundtrip.py CORPUS/onnx [--only TEXT] [--show]

Each ONNX file that converts is written as a DLC and read back, exported as ONNX, and converted again.
The first graph and the second are then compared, and the graphs that their control flow runs:

same        ops in order with names, types, packages, parameters and wiring; tensors with names, shapes,
            types, roles, encodings and the bytes of their data; inputs and outputs in order
inner       all of that, but the graphs that control flow runs differ
renamed     all of that but the names of ops and of inner tensors
other       the rest, by what differs first

Metadata (the history of tools) and the traces of source nodes are not compared.
"""

from __future__ import annotations

import argparse
import collections
import tempfile
from itertools import islice
from pathlib import Path

import xdlc
from xdlc.diff import Diff, diff
from xdlc.ir import Graph, Model, Op, Tensor


def dims_of(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the input shapes of a model's reference data, if it has any."""
    import numpy as np

    for reference in sorted(path.parent.glob(f"{path.stem}.*ref.npz")):
        with np.load(reference, allow_pickle=False) as arrays:
            return {
                name[4:].replace("|", "/"): arrays[name].shape for name in arrays if name.startswith("in::")
            }
    return {}


def positional(graph: Graph) -> Graph:
    """Return a copy in which ops and inner tensors are named by their place."""
    twin = graph.clone()
    ports = {tensor.name for tensor in (*twin.inputs, *twin.outputs)}
    for number, op in enumerate(twin.ops):
        op.name = f"op {number}"
        for key, param in op.params.items():
            if isinstance(param, Tensor):
                param.name = f"op {number} {key}"
        for place, tensor in [*enumerate(op.inputs), *enumerate(op.outputs)]:
            if tensor is not None and tensor.name not in ports and not tensor.name.startswith("op "):
                twin.rename(tensor, f"op {number} {'static ' if tensor.is_static else ''}{place}")
    return twin


def first_cause(first: Graph, second: Graph) -> str:
    """Return what two graphs differ in, in a few words."""
    counts = [collections.Counter(kind(op) for op in graph.ops) for graph in (first, second)]
    gone, new = counts[0] - counts[1], counts[1] - counts[0]
    if gone or new:
        parts = [f"-{name}" for name in sorted(gone)] + [f"+{name}" for name in sorted(new)]
        return "ops " + " ".join(parts)
    if [kind(op) for op in first.ops] != [kind(op) for op in second.ops]:
        return "order of ops"
    return first_change(differences(Model({"": positional(first)}), Model({"": positional(second)})))


def differences(first: Model, second: Model) -> Diff:
    """Return the differences of two models, but for what ops come from."""
    return diff(first, second, ignore=("origins", "reasons"))


def first_change(result: Diff) -> str:
    """Return the first difference in a few words."""
    _, row = islice(result.rows(), 2)
    return " ".join(str(cell) for cell in row[1:] if cell != "")[:140]


def kind(op: Op) -> str:
    """Return type and operation of an op."""
    operation = op.param("operation")
    return op.type if operation is None else f"{op.type}.{operation}"


def compare(before: Model, after: Model) -> tuple[str, str]:
    """Return the class of a pair, and the cause of the first difference."""
    first, second = before.main, after.main
    problems = differences(Model({"": first}), Model({"": second}))
    if problems.is_equal:
        inner = differences(Model(before.graphs), Model(after.graphs))
        return ("same", "") if inner.is_equal else ("inner", first_change(inner))
    if differences(Model({"": positional(first)}), Model({"": positional(second)})).is_equal:
        return "renamed", first_change(problems)
    return "other", first_cause(first, second)


def round_trip(path: Path, folder: Path) -> tuple[str, str]:
    """Return what became of one model."""
    try:
        xdlc.convert(path, input_dims=dims_of(path) or None).save(folder / "first.dlc")
    except xdlc.XdlcError as error:
        return "not converted", str(error).splitlines()[0][:140]
    first = xdlc.load(folder / "first.dlc")
    try:
        xdlc.to_onnx(first, folder / "m.onnx")
    except xdlc.XdlcError as error:
        return "not exported", str(error).splitlines()[-1][:160]
    try:
        xdlc.convert(folder / "m.onnx").save(folder / "second.dlc")
    except xdlc.XdlcError as error:
        return "not converted again", str(error).replace("\n", " ")[:300]
    return compare(first, xdlc.load(folder / "second.dlc"))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path, help="folder of ONNX files, or one file")
    parser.add_argument("--only", default="", help="take paths that hold this text")
    parser.add_argument("--show", action="store_true", help="print a line per model that is not the same")
    parser.add_argument("--largest", type=int, default=1 << 28, help="bytes of the largest file taken")
    options = parser.parse_args()
    paths = [options.corpus] if options.corpus.is_file() else sorted(options.corpus.rglob("*.onnx"))
    results: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
    for path in paths:
        if options.only not in str(path) or path.stat().st_size > options.largest:
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                verdict, cause = round_trip(path, Path(folder))
        except Exception as error:  # a bug in one model must not hide the others
            verdict, cause = "crashed", f"{type(error).__name__}: {error}"[:160]
        name = path.stem if path.stem != "model" else f"{path.parent.name}/model"
        results[verdict].append((name, cause))
        if options.show and verdict not in ("same", "not converted"):
            print(f"{verdict:20} {name:60} {cause}", flush=True)
    taken = sum(len(found) for verdict, found in results.items() if verdict != "not converted")
    for verdict, found in sorted(results.items(), key=lambda item: -len(item[1])):
        print(f"{len(found):5}  {verdict}")
    print(f"the same graph: {len(results['same'])} of {taken} that convert")
    for verdict in ("other", "renamed", "inner"):
        causes = collections.Counter(cause for _, cause in results[verdict])
        for cause, count in causes.most_common(25):
            print(f"  {count:4}  {verdict}: {cause}")


if __name__ == "__main__":
    main()
