"""Refusals of operators that no DLC can hold."""

from __future__ import annotations

from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.values import Value
from xdlc.options import spell

_REFUSED = {
    "Const": (
        "xdlc supports only constants that are numbers",
        "begin the graph at tensors of numbers: {} NODE DIMS",
    ),
    "SymbolicGradient": ("gradients are for training only", "export the model for inference"),
    "HashTable HashTableV2 LookupTableFind LookupTableFindV2 MutableHashTableV2": (
        "xdlc does not support lookup tables, which the model fills on loading",
        "look up outside the network, and begin after the table: {} NODE DIMS",
    ),
    "ParseExample ParseExampleV2 ParseSingleExample DecodeRaw DecodeJpeg DecodePng DecodeImage DecodeCSV": (
        "xdlc does not support encoded text and images",
        "decode outside the network, and begin after the decoder: {} NODE DIMS",
    ),
    "IteratorGetNext Iterator IteratorV2 QueueDequeueV2 QueueDequeueManyV2 FIFOQueueV2 ReaderReadV2": (
        "xdlc does not support input pipelines of training",
        "begin the graph at the pipeline's output: {} NODE DIMS",
    ),
    "TRTEngineOp NeuronOp XlaCallModule": (
        "the node is compiled for another runtime: TensorRT, Neuron or XLA",
        "convert the original model, or export it to ONNX or TFLite",
    ),
    "VariableV2 Variable VarHandleOp": (
        "no checkpoint holds variables that functions create",
        "export the model again, with variables created outside functions",
    ),
}
"""Problem and fix by operators that cannot be a part of a DLC; ``{}`` is the option that begins elsewhere."""
_REASONS = {op: reason for ops, reason in _REFUSED.items() for op in ops.split()}


@handler(*_REASONS)
def _refused(node: Node, _g: Operators) -> Value:
    problem, fix = _REASONS[node.type]
    raise node.problem(problem, fix.format(spell("input_dims")))
