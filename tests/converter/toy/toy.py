"""Importer of a made-up text format, as small as a framework can be.

A line is a declaration: ``input NAME DIMS``, ``const NAME NUMBERS``, ``output NAMES``,
``state NAME READ WRITTEN``, ``graph NAME INPUTS -> OUTPUTS`` ... ``end``, or a layer:
``NAME: TYPE INPUTS -> OUTPUTS {JSON}``, in which ``"@NAME"`` is a graph.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from xdlc import ir
from xdlc.converter.control_flow.branches import apply_if
from xdlc.converter.control_flow.while_form import apply_while
from xdlc.converter.frontends import Frontend
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import Handlers
from xdlc.converter.pipeline import Options, SourceModel
from xdlc.converter.session.context import Source
from xdlc.converter.session.node import GraphInput, GraphState, Node, SourceGraph
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT32

LAYER = re.compile(r"(\w+): ([\w.]+) ([\w ]*)-> ([\w ]+?)(?: (\{.*\}))?")
handler = Handlers()


def parsed(text: str) -> SourceGraph:
    """Return the graph of a text."""
    graphs: dict[str, SourceGraph] = {}
    main = graph = SourceGraph([], [], [], {}, [])
    for line in filter(None, map(str.strip, text.splitlines())):
        word, *rest = line.split()
        if word == "input":
            dims = [int(one) if one.isdigit() else one for one in rest[1:]]
            graph.inputs.append(GraphInput(rest[0], FLOAT32, dims))
        elif word == "const":
            graph.constants[rest[0]] = ir.ArrayData(np.asarray(rest[1:], np.float32))
        elif word == "state":
            graph.states.append(GraphState(*rest))
        elif word == "output":
            graph.outputs.extend(rest)
        elif word == "graph":
            ends = rest.index("->")
            inputs = [GraphInput(name, FLOAT32) for name in rest[1:ends]]
            graph = graphs["@" + rest[0]] = SourceGraph(inputs, rest[ends + 1 :], [])
        elif word == "end":
            graph = main
        else:
            name, type, inputs, outputs, attributes = LAYER.fullmatch(line).groups()
            values = {
                key: graphs.get(str(value), value) for key, value in json.loads(attributes or "{}").items()
            }
            graph.nodes.append(Node(type, inputs.split(), outputs.split(), values, name))
    return main


def read(path: Path, options: Options) -> SourceModel:
    """Return the graph of a file."""
    return SourceModel(Source("toy", str(path), unit="layer"), parsed(path.read_text()), handler, options)


TOY = Frontend("toy", "a toy model", "toy-to-dlc", lambda path, found: True, read)


@handler("Scale")
def scale(node: Node, g: Operators) -> Value:
    return g("Mul", [node.required(0), g.builder.const(np.float32(node.attr("by", 1)))])


@handler("Less", "Add", "Relu")
def same(node: Node, g: Operators) -> Value:
    return g(node.type, node.inputs)


@handler("Choose")
def choose(node: Node, g: Operators) -> list[Value]:
    branches = [node.graph("yes"), node.graph("no")]
    return apply_if(node, g, node.required(0), branches, node.inputs[1:])


@handler("While")
def loop(node: Node, g: Operators) -> list[Value]:
    return apply_while(node, g, node.graph("condition"), node.graph("body"), [node.required(0)])
