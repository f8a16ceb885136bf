"""Writes docs/reference/supported-ops.md: results for every ONNX operator, and further handlers.

    python scripts/supported_ops.py
    python bench/conformance.py --json verdicts.json
    python scripts/supported_ops.py --verdicts verdicts.json

The page comes from the registries of xdlc, from ONNX's own definitions of its operators, and from
conformance.json beside it, which holds the figures of a conformance run.  The last two lines renew those;
they convert the tests again to see which operations come out.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import json
import sys
import tempfile
import textwrap
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

import xdlc
from xdlc.converter.caffe.registry import layer as caffe
from xdlc.converter.caffe2.registry import operator as caffe2
from xdlc.converter.keras.registry import handler as keras
from xdlc.converter.operators import functions
from xdlc.converter.operators.host_only import can_keep
from xdlc.converter.operators.registry import ANY, MICROSOFT, Handlers, find, load_all
from xdlc.converter.pytorch.registry import aten
from xdlc.converter.tensorflow.registry import handler as tensorflow
from xdlc.converter.tflite.registry import handler as tflite
from xdlc.ir import NATIVE_PACKAGE
from xdlc.runtime.host_kernels import HOST_KERNELS, ML

DOCS = Path(__file__).parents[1] / "docs" / "reference"
PAGE, FIGURES = DOCS / "supported-ops.md", DOCS / "conformance.json"
DOMAINS = {
    "": "ai.onnx",
    ML: ML,
    "ai.onnx.preview": "ai.onnx.preview",
    "ai.onnx.preview.training": "ai.onnx.preview.training",
    MICROSOFT: MICROSOFT,
}
OLDEST = 7  # older opsets are read too, but no promise is made
_APPLIED = (
    "A handler applies operators of ONNX, which are carried in the ways above; what it cannot express is "
    "refused with the reason, and a few operators always are, like those on strings and files."
)
FRAMEWORKS = {
    "TensorFlow": (tensorflow, _APPLIED),
    "TensorFlow Lite": (
        tflite,
        f"{_APPLIED} A `Flex` operator is that of TensorFlow, other composites are their bodies.",
    ),
    "Caffe": (
        caffe,
        f"{_APPLIED} Layers that only choose data or training are no operators, and are dropped.",
    ),
    "Caffe2": (caffe2, f"{_APPLIED} Fills of the init net are constants."),
    "PyTorch": (
        aten,
        f"{_APPLIED} A name without an overload covers all overloads; forms in place (`relu_`) are those "
        f"of the operator without the underscore. `higher_order` operators run graphs.",
    ),
    "Keras": (keras, f"{_APPLIED} `ops` are operations of functional models, `tf` those of Keras 2."),
}
VERDICTS = ("right", "refused", "wrong", "crashed", "timeout")


@dataclass(frozen=True, slots=True)
class Operator:
    """A row of the page.

    Attributes:
        name: ONNX operator.
        versions: Versions of its definition that models of opset 7 or newer can mean, and that are imported.
        ways: How a node of it is carried, in the order in which the importer tries them.
        refusal: Why no node of it is carried, if there is no way.
    """

    name: str
    versions: tuple[int, ...]
    ways: tuple[str, ...]
    refusal: str = ""


def operators(domain: str) -> list[Operator]:
    """Return the operators of a domain by name."""
    defined = definitions().get(domain, {})
    known = {name for where, name in load_all() if where == domain} | HOST_KERNELS.get(domain, frozenset())
    return [_operator(domain, name, defined.get(name, ())) for name in sorted({*defined, *known})]


@functools.cache
def definitions() -> dict[str, dict[str, list[Any]]]:
    """Return ONNX's definitions by domain and operator, oldest first."""
    found: dict[str, dict[str, list[Any]]] = {}
    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=lambda each: each.since_version):
        found.setdefault(schema.domain, {}).setdefault(schema.name, []).append(schema)
    return found


def _operator(domain: str, name: str, history: Sequence[Any]) -> Operator:
    newest = _newest(domain)
    starts = [schema.since_version for schema in history] or [1]
    ends = [*(start - 1 for start in starts[1:]), newest]
    spans = [
        (start, end)
        for start, end in zip(starts, ends, strict=True)
        if end >= (1 if domain else OLDEST)
        and not (start == starts[-1] and history and history[-1].deprecated)
    ]
    carried = [(start, ways) for start, end in spans if (ways := _ways(domain, name, end))]
    if not carried:
        return Operator(name, (), (), _refusal(domain, history))
    return Operator(name, tuple(start for start, _ in carried), carried[-1][1])


def _newest(domain: str) -> int:
    return onnx.defs.onnx_opset_version() if not domain else 99


def _ways(domain: str, name: str, opset: int) -> tuple[str, ...]:
    entry = find(domain, name, opset)
    if entry is not None and entry.is_structural:
        return ("known" if entry.layout == ANY else "control flow",)
    ways = [] if entry is None else ["QNN"]
    if functions.has_body(name, domain, opset):
        ways.append("body")
    if can_keep(name, domain):
        ways.append("host")
    return tuple(ways)


def _refusal(domain: str, history: Sequence[Any]) -> str:
    if domain.endswith("training"):
        return "training"
    if history and history[-1].deprecated:
        return "deprecated"
    for values in (history[-1].inputs, history[-1].outputs) if history else ():
        for value in values:
            kinds = sorted(value.types)
            if all(kind.startswith(("seq(", "optional(", "map(")) for kind in kinds):
                return "sequences, optionals and maps have no form in a DLC"
            if all("string" in kind for kind in kinds):
                return "strings have no form in a DLC"
    return "nothing carries it yet"


# ------------------------------------------------------------------ the conformance run


def figures(verdicts: Sequence[Mapping[str, Any]], tests: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page needs of a conformance run.

    Tests of a single operator count for it; those of several, as the expanded functions are, only in all.

    Args:
        verdicts: What ``bench/conformance.py --json`` wrote.
        tests: The models of the tests by name.
    """
    by_operator: dict[str, _Tally] = {}
    for entry in verdicts:
        if len(entry["ops"]) == 1:
            tally = by_operator.setdefault(entry["ops"][0], _Tally())
            tally.verdicts[entry["ours"]] += 1
            if entry["ours"] == "right":
                tally.types.update(_types(tests[entry["name"]]))
    return {
        "onnx": onnx.__version__,
        "tests": dict(Counter(entry["ours"] for entry in verdicts)),
        "operators": {
            name: {
                **{verdict: tally.verdicts[verdict] for verdict in VERDICTS if tally.verdicts[verdict]},
                "types": sorted(tally.types),
            }
            for name, tally in sorted(by_operator.items())
        },
    }


@dataclass(slots=True)
class _Tally:
    verdicts: Counter[str] = field(default_factory=Counter)
    types: set[str] = field(default_factory=set)


def node_tests() -> dict[str, Any]:
    """Return the models of the onnx package's node tests by name."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {test.name: test.model for test in load_model_tests(kind="node")}


def _types(model: Any) -> Iterator[str]:
    """Iterate over the types of the ops that a test's model becomes; the edges of the graph do not count."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        converted = xdlc.convert(path)
    for graph in converted.graphs.values():
        for op in graph.ops:
            if op.origin.nodes and not op.is_inserted:
                yield op.type if op.package == NATIVE_PACKAGE else f"{op.package}::{op.type}"


# ------------------------------------------------------------------ the page


_INTRODUCTION = """\
Operators as onnx {onnx} defines them. A node is carried in the first of these ways that is exact;
nodes whose inputs are all constant are worked out while converting, whatever the operator. What a
node becomes in a model, and why, is in the report of `xconv-onnx-to-dlc --dry_run debug`."""
_WAYS = """\
- **QNN**: by operations of QNN, or by nothing at all where it only renames or reorders.
- **body**: by the operations of the function that ONNX defines it as.
- **host**: as an op of package `xdlc` with the operator's own name. The host runtime executes it; a graph
  with such ops runs on the host only.
- **control flow**: as `If` and `While` of package `xdlc`, with graphs of their own. Known branches and short
  loops are dissolved.
- **known**: lists and optionals are taken apart while converting, where length and positions are known.
"""
_COLUMNS = """\
*Versions* are those of the operator's definition that models of opset 7 or newer can mean.
*Becomes* names the operations seen in the tests of the onnx package that need nothing but this
operator; *right* and *refused* count these tests, with the DLC written, read back and run on the
host. Of all its tests whose inputs and outputs are tensors of numbers: {counts}."""


def page(found: Mapping[str, Any]) -> str:
    """Return the page.

    Args:
        found: What ``figures`` returned.
    """
    tests = found["tests"]
    counts = ", ".join(f"{tests[verdict]} {verdict}" for verdict in VERDICTS if tests.get(verdict))
    lines = [
        "# Supported operators",
        "",
        "Made by `scripts/supported_ops.py`; do not edit.",
        "",
        *textwrap.wrap(_INTRODUCTION.format(onnx=found["onnx"]), 110),
        "",
        *_WAYS.splitlines(),
        "",
        *textwrap.wrap(_COLUMNS.format(counts=counts), 110),
    ]
    for domain, title in DOMAINS.items():
        rows = operators(domain)
        carried = sum(bool(row.ways) for row in rows)
        lines += ["", f"## {title}", "", f"{carried} of {len(rows)} operators are carried.", ""]
        lines += _table(rows, {} if domain == MICROSOFT else found["operators"])  # its tests are not onnx's
    for title, (handlers, note) in FRAMEWORKS.items():
        lines += _handlers_of(title, handlers, note)
    return "\n".join(lines) + "\n"


def handled(handlers: Handlers) -> dict[str, list[str]]:
    """Return the node types of a framework that have handlers, by what the module of these is about."""
    found: dict[str, list[str]] = {}
    for domain, name in handlers.all():
        module = _module_of(handlers, domain, name)
        found.setdefault(module, []).append(f"{domain}::{name}" if domain else name)
    return {module: sorted(names) for module, names in sorted(found.items())}


def _module_of(handlers: Handlers, domain: str, name: str) -> str:
    """Return the last part of the name of the module that registers a handler."""
    function = handlers.all()[domain, name].function
    return str(inspect.unwrap(function).__module__).rpartition(".")[2].replace("_", " ").strip()


def _handlers_of(title: str, handlers: Handlers, note: str) -> Iterator[str]:
    rows = handled(handlers)
    yield from ("", f"## {title}", "")
    count = sum(len(names) for names in rows.values())
    yield from textwrap.wrap(f"{count} operators have a handler. {note}", 110)
    yield from ("", "| about | operators |", "|---|---|")
    for about, names in rows.items():
        yield f"| {about} | {', '.join(names)} |"


def _table(rows: Sequence[Operator], tests: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "| operator | versions | carried | becomes | right | refused |"
    yield "|---|---|---|---|---:|---:|"
    for row in rows:
        tally = tests.get(row.name, {})
        failed = [f"{tally[verdict]} {verdict}" for verdict in VERDICTS[2:] if tally.get(verdict)]
        without = "when constant" if tally.get("right") else f"no: {row.refusal}"
        cells = (
            row.name,
            ", ".join(map(str, row.versions)) or "-",
            ", ".join(row.ways) or without,
            ", ".join(tally.get("types", ())) or "-",
            str(tally.get("right", 0)) if tally else "-",
            ", ".join([str(tally.get("refused", 0)), *failed]) if tally else "-",
        )
        yield f"| {' | '.join(cells)} |"


def main() -> int:
    """Renew the page, and the figures if there are new ones."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--verdicts", type=Path, metavar="FILE", help="verdicts of a conformance run")
    given = parser.parse_args()
    if given.verdicts:
        found = figures(json.loads(given.verdicts.read_text()), node_tests())
        FIGURES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(json.loads(FIGURES.read_text(encoding="utf-8"))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
