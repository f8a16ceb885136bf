"""First wrong op between two engines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

import xdlc
from tests.support.onnx_models import build, node, residual
from xdlc.compare.engines import HostEngine, computed
from xdlc.compare.first_wrong import apart, compare, first_wrong, grouped, segments, wrong_together
from xdlc.ir import ArrayData, AxisScaleOffset, Model, ScaleOffset

RANDOM = np.random.default_rng(0)
SAMPLES = [{"x": RANDOM.standard_normal((1, 3, 8, 8)).astype("f4")} for _ in range(3)]


@pytest.fixture(scope="module")
def model() -> Model:
    return xdlc.convert(residual())


def _changed(model: Model, op_name: str, change: Callable[[np.ndarray], np.ndarray]) -> Model:
    """Return a copy in which the weights of an op are other ones."""
    copy = model.clone()
    op = next(op for op in copy.main.ops if op.name == op_name)
    tensor = op.inputs[1]
    assert tensor is not None
    tensor.data = ArrayData(change(tensor.numpy()))
    return copy


def test_equal_models_have_no_wrong_op(model: Model) -> None:
    rows = compare(HostEngine(model), HostEngine(model.clone()), model, lambda: SAMPLES)
    assert [row.tensor for row in rows] == computed(model.main)
    assert first_wrong(rows) is None
    assert all(row.cumulative.largest == 0 for row in rows)


@pytest.mark.parametrize("memory", [1, 1 << 20])
def test_only_the_changed_op_is_wrong_alone(model: Model, memory: int) -> None:
    other = _changed(model, "second", lambda weights: weights * 1.01)
    rows = compare(HostEngine(model), HostEngine(other), other, lambda: SAMPLES, memory=memory)
    assert [row.op for row in rows if row.is_wrong] == ["second"]
    assert rows[-1].cumulative.db < 60
    assert first_wrong(rows).nodes == ("second",)  # type: ignore[union-attr]


def test_nan_in_weights_is_found(model: Model) -> None:
    def spoil(weights: np.ndarray) -> np.ndarray:
        spoiled = weights.copy()
        spoiled.flat[0] = np.nan
        return spoiled

    other = _changed(model, "second", spoil)
    wrong = first_wrong(compare(HostEngine(model), HostEngine(other), other, lambda: SAMPLES))
    assert wrong is not None
    assert wrong.op == "second"
    assert wrong.cumulative.nans > 0


def test_quantized_model_has_no_wrong_op(model: Model) -> None:
    quantized = xdlc.quantize(model.clone(), SAMPLES)
    rows = compare(HostEngine(model), HostEngine(quantized), quantized, lambda: SAMPLES)
    assert first_wrong(rows) is None
    assert rows[-1].cumulative.db > 20


@pytest.fixture(scope="module")
def quantized(model: Model) -> Model:
    return xdlc.quantize(model.clone(), SAMPLES)


def _wrong_ops(reference: Model, candidate: Model, samples: list[dict[str, np.ndarray]]) -> list[str]:
    rows = compare(HostEngine(reference), HostEngine(candidate), candidate, lambda: samples)
    return [row.op for row in rows if row.is_wrong]


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("name", ["first", "second", "dense"])
def test_zero_point_of_weights_that_is_off_by_one_is_wrong(
    model: Model, quantized: Model, name: str, shift: int
) -> None:
    spoiled = quantized.clone()
    op = next(op for op in spoiled.main.ops if op.name == name)
    weights = op.inputs[1]
    assert weights is not None
    encoding = weights.encoding
    if isinstance(encoding, AxisScaleOffset):
        weights.encoding = replace(encoding, offsets=tuple(offset + shift for offset in encoding.offsets))
    else:
        assert isinstance(encoding, ScaleOffset)
        weights.encoding = replace(encoding, offset=encoding.offset + shift)
    rows = compare(HostEngine(model), HostEngine(spoiled), spoiled, lambda: SAMPLES)
    wrong = first_wrong(rows)
    assert wrong is not None
    assert name in wrong.nodes  # an activation that reads it may be judged with it


@pytest.mark.parametrize(("scale", "shift"), [(0.5, 0), (1.0, 60)])
def test_encoding_that_clips_values_is_wrong(
    model: Model, quantized: Model, scale: float, shift: int
) -> None:
    spoiled = quantized.clone()
    (tensor,) = next(op for op in spoiled.main.ops if op.name == "add").outputs
    assert isinstance(tensor.encoding, ScaleOffset)
    tensor.encoding = replace(
        tensor.encoding, scale=tensor.encoding.scale * scale, offset=tensor.encoding.offset + shift
    )
    assert _wrong_ops(model, spoiled, SAMPLES)[0] == "add"


def test_samples_beyond_the_calibrated_range_are_no_fault(model: Model) -> None:
    others = [{"x": RANDOM.standard_normal((1, 3, 8, 8)).astype("f4")} for _ in range(12)]
    quantized = xdlc.quantize(model.clone(), others)
    assert _wrong_ops(model, quantized, SAMPLES) == []


class _Results:
    """Values of a model, one of which is changed on the way."""

    title = "results"

    def __init__(self, model: Model, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
        self.names = computed(model.main)
        self._engine, self._name, self._change = HostEngine(model), name, change

    def values(
        self, feeds: Mapping[str, np.ndarray], names: Sequence[str], sample: int = 0
    ) -> dict[str, np.ndarray]:
        values = self._engine.values(feeds, names, sample)
        return {name: self._change(value) if name == self._name else value for name, value in values.items()}


@pytest.mark.parametrize("steps", [0.0, -1.0, 1.0, -0.5])
def test_values_that_are_off_by_steps_on_average_are_wrong(quantized: Model, steps: float) -> None:
    encoding = quantized.main.tensors["c2"].encoding
    assert isinstance(encoding, ScaleOffset)

    def change(values: np.ndarray) -> np.ndarray:
        whole = np.where(np.arange(values.size).reshape(values.shape) % 2, np.ceil(steps), np.floor(steps))
        return (values + whole * encoding.scale).astype("f4")

    engine = _Results(quantized, "c2", change)
    rows = compare(HostEngine(quantized), engine, quantized, lambda: SAMPLES)
    assert [row.op for row in rows if row.is_wrong][:1] == (["second"] if steps else [])


class _Joining:
    """A model that is wrong from a tensor on unless the tensor before it is an output."""

    title = "joined"

    def __init__(self, model: Model, place: int) -> None:
        self.names = computed(model.main)
        self._engine, self._place = HostEngine(model), place

    def values(
        self, feeds: Mapping[str, np.ndarray], names: Sequence[str], sample: int = 0
    ) -> dict[str, np.ndarray]:
        is_joined = self.names[self._place - 1] not in names
        late = self.names[self._place :] if is_joined else ()
        values = self._engine.values(feeds, names, sample)
        return {name: -value if name in late else value for name, value in values.items()}


@pytest.mark.parametrize("place", [1, 3, 5])
def test_ops_that_are_wrong_together_are_found(model: Model, place: int) -> None:
    reference, engine = HostEngine(model), _Joining(model, place)
    rows = compare(reference, engine, model, lambda: SAMPLES)
    assert first_wrong(rows) is None
    outputs = [tensor.name for tensor in model.main.outputs]
    joined = wrong_together(reference, engine, rows, outputs, SAMPLES[0])
    assert joined is not None
    assert joined.tensor in engine.names[place - 1 : place + 1]
    assert wrong_together(reference, reference, rows, outputs, SAMPLES[0]) is None


def test_metric_of_the_user_is_called_for_each_tensor(model: Model) -> None:
    rows = compare(
        HostEngine(model),
        HostEngine(model),
        model,
        lambda: SAMPLES,
        metric=lambda first, second: float(np.abs(first - second).max()) + 2.0,
    )
    assert {row.cumulative.custom for row in rows} == {2.0}


def test_ops_between_shared_tensors_are_one_segment(model: Model) -> None:
    parts = segments(model.main, ["r1", "a1"])
    assert [part.tensor.name for part in parts] == ["r1", "a1"]
    assert [op.name for op in parts[1].ops] == ["second", "add"]
    assert parts[1].inputs == ("r1",)


def test_inner_tensors_have_names_that_no_tensor_has() -> None:
    nodes = [node("Sigmoid", "x", "a"), node("Tanh", "a", "a:0"), node("Abs", "a:0", "x:fed")]
    graph = xdlc.convert(build(nodes, {"x": np.zeros((1, 4), "f4")}, None, ["x:fed"], opset=18)).main
    alone, entries = apart(graph, segments(graph, ["a:0", "x:fed"]))
    assert [tensor.name for tensor in alone.outputs] == ["a:0", "x:fed"]
    assert set(entries) == {"x", "a:0"}


def test_groups_hold_all_segments_within_memory(model: Model) -> None:
    parts = segments(model.main, computed(model.main))
    groups = list(grouped(model.main, parts, 1 << 13))
    assert [part for group in groups for part in group] == parts
    assert len(groups) > 1
