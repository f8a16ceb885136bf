"""Each pass on its golden file: text in, text out, and the numbers stay.

A golden file holds the graph before the pass, a line ``====``, and the graph after it.  To take up a
wanted change, delete the second half and run with XDLC_UPDATE_GOLDEN=1.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.support.running import run
from xdlc import passes
from xdlc.errors import ConstraintError, ModelError, UsageError
from xdlc.ir import Dequantized, parse, to_text
from xdlc.ir.dtype import FLOAT32
from xdlc.passes import base

FOLDER = Path(__file__).parent / "golden"
MARK = "\n====\n"
HALF = 2.0**-10
"""Relative accuracy of sums in float16."""


def feeds_of(graph):
    rng = np.random.default_rng(0)
    return {
        tensor.name: np.abs(rng.standard_normal(tensor.shape)).astype(tensor.dtype.numpy)
        if tensor.dtype.is_integer
        else rng.standard_normal(tensor.shape).astype(np.float32)
        for tensor in graph.inputs
    }


def results(graph, feeds, native):
    shaped = {tensor.name: feeds[tensor.name].reshape(tensor.shape) for tensor in graph.inputs}
    return run(graph, shaped, native=native)


def dequantize_statics(graph):
    """Make static fixed-point tensors the float values that an importer has for them."""
    for tensor in graph.tensors.values():
        if tensor.is_static and tensor.dtype.is_fixed:
            tensor.data = Dequantized(tensor.data, tensor.dtype, tensor.encoding)
            tensor.dtype, tensor.encoding = FLOAT32, None


ALL = [passes.find(name) for name in passes.names()]


@pytest.mark.parametrize("entry", ALL, ids=lambda entry: entry.name)
def test_pass(entry):
    path = FOLDER / f"{entry.name}.txt"
    before, _, expected = path.read_text().partition(MARK)
    graph = parse(before).main
    if entry.name == "store_quantized_weights":
        dequantize_statics(graph)
    feeds, native = feeds_of(graph), entry.name == "reinterpret_io"
    numbers = results(graph, feeds, native)
    assert passes.run(graph, [entry])  # skipped if the op types it is registered with are wrong
    graph.verify()
    is_half = entry.name == "multiply_blocks"
    for name, values in results(graph, feeds, native).items():
        tolerance = HALF * np.abs(values).max() if is_half else 1e-6
        np.testing.assert_allclose(values, numbers[name], rtol=1e-5, atol=tolerance)
    found = to_text(graph, data="inline").rstrip()
    if os.environ.get("XDLC_UPDATE_GOLDEN"):
        path.write_text(before.rstrip() + MARK + found + "\n")
    else:
        assert found == expected.rstrip()


def test_every_golden_file_has_its_pass():
    assert {path.stem for path in FOLDER.glob("*.txt")} == {entry.name for entry in ALL}


def test_passes_run_in_the_order_that_they_require():
    assert [entry.name for entry in passes.stage("converter")] == [
        "drop_neutral",
        "fuse_clamp",
        "fuse_gelu",
        "fuse_hard_swish",
        "fuse_hard_sigmoid",
        "fold_batchnorm",
        "fold_affine",
        "fuse_dilation",
        "fuse_layer_norm",
        "fuse_batchnorm",
        "fuse_l2_norm",
        "fuse_prelu",
        "fuse_rms_norm",
        "fold_preprocessing",
        "fuse_softmax",
        "merge_views",
        "keep_reduced_axes",
        "merge_casts",
        "fold_pad",
        "fold_transpose_into_fully_connected",
        "merge_rearrangements",
        "hoist_transposes",
        "merge_views_around",
        "mix_leading_features",
        "narrow_bounded_integers",
        "prune",
        "shift_signed",
        "fold_quantize_dequantize",
        "trim_clamp",
    ]
    assert [entry.name for entry in passes.stage("htp")] == [
        "copy_identities",
        "lift_scalar_io",
        "real_integers",
        "reinterpret_io",
        "skip_empty",
        "store_integers",
        "narrow_integers",
        "exact_casts",
        "widen_bytes",
        "multiply_blocks",
        "dequantize_weights",
        "cast_reinterpreted",
        "avoid_faults",
        "expand_blocks",
        "step_recurrences",
        "spread_batches",
        "widen_slopes",
        "write_hard_swish",
    ]


def test_a_query_leaves_integers_that_do_not_fit_to_its_report():
    text = (FOLDER / "narrow_integers.txt").read_text().partition(MARK)[0]
    graph = parse(text.replace(" 2147483647,", " 4294967296,")).main
    assert passes.run(graph, passes.htp_query())
    with pytest.raises(ConstraintError, match="4294967296"):
        passes.run(parse(text.replace(" 2147483647,", " 4294967296,")).main, passes.stage("htp"))


def test_a_pass_of_no_stage_is_an_error():
    with pytest.raises(ValueError, match="'later' is not a stage"):
        passes.graph_pass(stage="later")


def test_a_name_that_is_no_pass_is_an_error_with_the_nearest():
    with pytest.raises(UsageError, match="fold_pad"):
        passes.find("fold_pads")


def test_passes_that_never_settle_are_an_error():
    graph = parse((FOLDER / "prune.txt").read_text().partition(MARK)[0]).main
    with pytest.raises(ModelError, match="restless"):
        passes.run(graph, [passes.Pass("restless", lambda graph: True)])


@pytest.mark.parametrize(("operation", "is_entered"), [(4, False), (5, True)])
def test_a_pass_is_entered_if_the_graph_has_what_it_needs(operation, is_entered):
    text = (FOLDER / "write_hard_swish.txt").read_text().partition(MARK)[0]
    graph = parse(text.replace("operation=uint32 3", f"operation=uint32 {operation}")).main
    entered = []
    needs = frozenset({("ElementWiseNeuron", 5), "Conv2d"})
    entry = passes.Pass("watch", lambda graph: bool(entered.append(graph)), needs=needs)
    assert not passes.run(graph, [entry])
    assert bool(entered) is is_entered


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_a_skipped_pass_would_change_nothing(path):
    graph = parse(path.read_text().partition(MARK)[0]).main
    text, features = to_text(graph, data="inline"), base.features_of(graph)
    skipped = [entry for entry in ALL if entry.needs and entry.needs.isdisjoint(features)]
    assert skipped
    for entry in skipped:
        assert not entry.apply(graph), entry.name
        assert to_text(graph, data="inline") == text, entry.name
