"""HTP's emulation and our run of one op agree within a step.

Where whole networks drift apart, this tells a wrong mapping from differences of single roundings that
the network amplifies.
"""

import numpy as np
import pytest

import xdlc
from tests.support.corpus_models import CorpusModel
from tests.support.htp_models import needs_htp
from xdlc.ir import Graph, Model, Op, Role, Tensor
from xdlc.runtime.cpu import CpuSession

pytestmark = [pytest.mark.corpus, pytest.mark.vendor, needs_htp]
MODELS = ("yolox_nano", "mtcnn_pnet", "mtcnn_rnet", "ppocr_cls_v2", "mlperf_resnet8", "oww_embedding_model")
STEPS, SAME, MANY = 1, 0.8, 100


def one_of_each(graph: Graph) -> list[Op]:
    """Return the first quantized op of every kind."""
    kinds = {}
    for op in graph.ops:
        if all(tensor.dtype.is_fixed for tensor in op.outputs):
            kinds.setdefault((op.type, op.param("operation")), op)
    return list(kinds.values())


def alone(op: Op) -> Graph:
    """Return a graph of this op only, its activations being inputs and outputs."""
    graph = Graph("one_op")
    twins = {}

    def twin(tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        if tensor not in twins:
            role = Role.STATIC if tensor.is_static else Role.NATIVE
            twins[tensor] = Tensor(
                tensor.name, tensor.shape, tensor.dtype, tensor.encoding, tensor.data, role
            )
            if not tensor.is_static and tensor not in op.outputs:
                graph.add_input(twins[tensor])
        return twins[tensor]

    inputs = [twin(tensor) for tensor in op.inputs]
    outputs = [twin(tensor) for tensor in op.outputs]
    graph.append(Op(op.type, inputs, outputs, op.params, name=op.name, package=op.package))
    for tensor in outputs:
        graph.add_output(tensor)
    return graph


@pytest.mark.parametrize("name", MODELS)
def test_single_ops_agree_within_a_step(corpus, name):
    source = CorpusModel(corpus, name)
    quantized = xdlc.quantize(source.convert(), source.samples(4))
    ops = one_of_each(quantized.main)
    names = {
        tensor.name
        for op in ops
        for tensor in op.inputs
        if tensor is not None and not tensor.is_static and tensor.role is not Role.INPUT
    }
    session = CpuSession(quantized.main, outputs=sorted(names))
    values = {**source.feeds, **session.run(source.feeds)}
    for op in ops:
        graph = alone(op)
        feeds = {tensor.name: values[tensor.name] for tensor in graph.inputs}
        ours = xdlc.run(Model({"one_op": graph}), feeds)
        theirs = xdlc.run(Model({"one_op": graph}), feeds, runtime="htp", soc="sm8650")
        for tensor in graph.outputs:
            steps = np.rint(np.abs(ours[tensor.name] - theirs[tensor.name]) / tensor.encoding.scale)
            assert steps.max() <= STEPS, f"{op.type} {op.name}: {int(steps.max())} steps"
            if steps.size >= MANY:
                assert np.mean(steps == 0) >= SAME, f"{op.type} {op.name}: {np.mean(steps == 0):.3f} the same"
