"""Handlers of operators without effect at inference, and of those that no DLC can hold."""

from __future__ import annotations

from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.values import Value


@handler(
    "Identity",
    "StopGradient",
    "PreventGradient",
    "CheckNumerics",
    "CheckNumericsV2",
    "Snapshot",
    "EnsureShape",
    "Print",
    "PlaceholderWithDefault",
    "ReadVariableOp",
    ignores=("message", "shape", "dtype", "first_n", "summarize", "U"),
)
def _first_input(node: Node, _g: Operators) -> Value:
    return node.required(0)


@handler("IdentityN")
def _all_inputs(node: Node, _g: Operators) -> list[Value]:
    return [node.required(index) for index in range(len(node.names))]


_REFUSED = {
    "HashTable HashTableV2 LookupTableFind LookupTableFindV2 MutableHashTableV2": (
        "a lookup table, which the model fills as it is loaded",
        "look up outside of the network: begin after it with --input_dim NODE DIMS",
    ),
    "ParseExample ParseExampleV2 ParseSingleExample DecodeRaw DecodeJpeg DecodePng DecodeImage DecodeCSV": (
        "reads encoded text or images, of which a DLC holds none",
        "decode outside of the network: begin at what it returns with --input_dim NODE DIMS",
    ),
    "IteratorGetNext Iterator IteratorV2 QueueDequeueV2 QueueDequeueManyV2 FIFOQueueV2 ReaderReadV2": (
        "feeds the network with data of training",
        "begin at it with --input_dim NODE DIMS",
    ),
    "TRTEngineOp NeuronOp XlaCallModule": (
        "is compiled for another runtime: TensorRT, Neuron or XLA",
        "convert the model that it was made from, or export that to ONNX or TFLite",
    ),
    "VariableV2 Variable VarHandleOp": (
        "a variable of a function's own, which no checkpoint holds",
        "export the model again, with its variables created outside of functions",
    ),
}
"""Problem and fix by operators that cannot be a part of a DLC."""
_REASONS = {op: reason for ops, reason in _REFUSED.items() for op in ops.split()}


@handler(*_REASONS)
def _refused(node: Node, _g: Operators) -> Value:
    raise node.problem(*_REASONS[node.type])


@handler("Const")
def _string(node: Node, _g: Operators) -> Value:
    raise node.problem(
        "holds strings, resources or other things that a DLC cannot",
        "begin the graph at tensors of numbers: --input_dim NODE DIMS",
    )
