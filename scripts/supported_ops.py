"""Writes docs/reference/supported-ops.md: results for every ONNX operator, and further handlers.

    python scripts/supported_ops.py
    python bench/conformance.py --json verdicts.json
    python scripts/supported_ops.py --verdicts verdicts.json

The page comes from the registries of xdlc, from ONNX's own definitions of its operators, and from two
files beside it: conformance.json has the figures of a conformance run on the host, htp-conformance.json
those of bench/htp_nodes.py on HTP.  The last two lines renew the first; they convert the tests again to see
which operations come out.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import json
import sys
import tempfile
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
HTP_FIGURES = DOCS / "htp-conformance.json"
DOMAINS = {
    "": "ai.onnx",
    ML: ML,
    "ai.onnx.preview": "ai.onnx.preview",
    "ai.onnx.preview.training": "ai.onnx.preview.training",
    MICROSOFT: MICROSOFT,
}
OLDEST = 7  # older opsets are read too, but no promise is made
FRAMEWORKS = {
    "TensorFlow": tensorflow,
    "TensorFlow Lite": tflite,
    "Caffe": caffe,
    "Caffe2": caffe2,
    "PyTorch": aten,
    "Keras": keras,
}
VERDICTS = ("right", "refused", "wrong", "crashed", "timeout")
HTP_VERDICTS = ("right", "bound", "off", "refused", "died", "timeout")


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


_ABOUT_ONNX = """\
You see which operators of onnx {onnx} xdlc converts, and which HTP computes. The site has a filter above each
table. `scripts/supported_ops.py` writes this page; do not edit it.

`xdlc convert net.onnx --dry-run debug` prints what each node of your model becomes, and why.

## ONNX

xdlc converts {carried} of {count} operators. [The columns](#the-columns-of-the-table) are explained below the table.

| operator | HTP | way | becomes | CPU tests | HTP tests | why not | domain | versions |
|---|---|---|---|---|---|---|---|---|
"""  # noqa: E501
_COLUMNS = """
### The columns of the table

**HTP** is what HTP supports of the tests: *all*, *some* or *none*. *With constants* means that HTP needs axes, sizes,
starts or scales as constants, as networks have them.

**Way** is how xdlc converts a node. It uses the first way that is exact:

- *QNN*: operations of QNN; a node that only renames or reorders disappears.
- *body*: the operations of the function that ONNX defines for the operator.
- *host*: an op of package `xdlc`. The CPU runs it with onnxruntime. A graph with host ops runs on the CPU only.
- *control flow*: `If` and `While` of package `xdlc`, with graphs of their own. xdlc unrolls short loops.
- *known*: xdlc resolves lists and optionals during conversion, if it knows their length.

xdlc computes a node whose inputs are all constant during conversion, whatever the operator.

**Becomes** lists the operations that xdlc writes in the onnx package's tests of this operator alone.

**CPU tests** counts these tests: the DLC is written, read and run on the CPU. All tests: {counts}.

**HTP tests** counts them on the vendor's emulation (onnxruntime-qnn {qnn}) of SM8650. All tests: {htp_counts}.

- *right*: integers are equal; floats are within the test's tolerance or 2 % (relative L2).
- *bound*: right if the inputs that HTP needs during compilation are constants.
- *off*: another result, in most tests for infinities, NaN or numbers above the range of float16.
- *refused*: an error with the reason.
- *died*: the vendor's library ended its process.

**Why not** has the most frequent reasons. [What HTP computes otherwise](htp-faults.md) lists the faults of the library
that xdlc works around.

**Versions** are the versions of the operator that models of opset 7 or newer can use.
"""  # noqa: E501
_ABOUT_FRAMEWORKS = """
## Other frameworks

xdlc converts these operators with the operators of ONNX above, in the same ways. It prints an error with the
reason for a form that it cannot express, and for operators on strings and files.

- TensorFlow Lite: a `Flex` operator is the operator of TensorFlow; xdlc converts the body of other composites.
- Caffe: xdlc drops layers that only choose data or train.
- Caffe2: fills of the init net are constants.
- PyTorch: a name without an overload covers all overloads. `relu_`, a form in place, is `relu`. `higher_order`
  operators run graphs.
- Keras: `ops` are operations of functional models, `tf` are operations of Keras 2.

| framework | about | count | operators |
|---|---|---:|---|
"""  # noqa: E501


def page(measured: Mapping[str, Any], on_htp: Mapping[str, Any]) -> str:
    """Return the page.

    Args:
        measured: What ``figures`` returned.
        on_htp: What ``bench/htp_nodes.py --figures`` wrote.
    """
    rows = {domain: operators(domain) for domain in DOMAINS}
    everything = [row for domain in rows.values() for row in domain]
    facts = {
        "onnx": measured["onnx"],
        "qnn": on_htp["onnxruntime-qnn"],
        "carried": sum(bool(row.ways) for row in everything),
        "count": len(everything),
        "counts": _counts(measured["tests"], VERDICTS),
        "htp_counts": _counts(on_htp["tests"], HTP_VERDICTS),
    }
    lines = ["# Operators and what HTP computes", "", *_ABOUT_ONNX.format(**facts).splitlines()]
    for domain, title in DOMAINS.items():
        figures = ({}, {}) if domain == MICROSOFT else (measured["operators"], on_htp["operators"])
        lines += _table(title, rows[domain], *figures)  # the tests of com.microsoft are not onnx's
    lines += _COLUMNS.format(**facts).splitlines()
    lines += _ABOUT_FRAMEWORKS.splitlines()
    for title, handlers in FRAMEWORKS.items():
        for about, names in handled(handlers).items():
            lines.append(f"| {title} | {about} | {len(names)} | {', '.join(names)} |")
    return "\n".join(lines) + "\n"


def _counts(tally: Mapping[str, Any], verdicts: Sequence[str]) -> str:
    return ", ".join(f"{tally[verdict]} {verdict}" for verdict in verdicts if tally.get(verdict))


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


def _table(
    domain: str, rows: Sequence[Operator], tests: Mapping[str, Any], on_htp: Mapping[str, Any]
) -> Iterator[str]:
    for row in rows:
        tally, htp = tests.get(row.name, {}), on_htp.get(row.name, {})
        without = "when constant" if tally.get("right") else f"no: {row.refusal}"
        cells = (
            row.name,
            _summary(htp),
            ", ".join(row.ways) or without,
            ", ".join(tally.get("types", ())) or "-",
            _counts(tally, VERDICTS) or "no test",
            _counts(htp, HTP_VERDICTS) or "-",
            "; ".join(htp.get("why", ())),
            domain,
            ", ".join(map(str, row.versions)) or "-",
        )
        yield f"| {' | '.join(cells)} |"


def _summary(htp: Mapping[str, Any]) -> str:
    """Return in one word what HTP supports of the tests of an operator."""
    right, bound = htp.get("right", 0), htp.get("bound", 0)
    count = sum(htp.get(verdict, 0) for verdict in HTP_VERDICTS)
    if not count:
        return "not tested"
    if right + bound < count:
        return "some" if right + bound else "none"
    return "with constants" if bound else "all"


def main() -> int:
    """Renew the page, and the figures if there are new ones."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--verdicts", type=Path, metavar="FILE", help="verdicts of a conformance run")
    given = parser.parse_args()
    if given.verdicts:
        renewed = figures(json.loads(given.verdicts.read_text()), node_tests())
        FIGURES.write_text(json.dumps(renewed, indent=1) + "\n", encoding="utf-8")
    measured, on_htp = (json.loads(path.read_text(encoding="utf-8")) for path in (FIGURES, HTP_FIGURES))
    PAGE.write_text(page(measured, on_htp), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
