import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cache_models import port, put_cache
from tests.support.htp_models import cnn
from xdlc.container.cache_entry import CachedTensor, read_entry, vendor_name
from xdlc.ir import ScaleOffset, Tensor
from xdlc.ir import dtype as dt

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=4)
    | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def put_in(value: Any, path: list[Any], new: Any) -> Any:
    """Return a copy of a JSON value with another one at a place."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put_in(copy[path[0]], path[1:], new)
    return copy


def places(value: Any) -> list[list[Any]]:
    """Return where in a JSON value something stands."""
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    return [[], *([key, *rest] for key, held in inner for rest in places(held))]


def entry() -> dict[str, Any]:
    model = cnn(quantized=True)
    put_cache(model, "sm8650")
    return dict(model.metadata["cacheList"][0])


def test_all_that_an_entry_says_is_read() -> None:
    found = read_entry(entry())
    assert (found.soc_id, found.arch, found.vtcm_mb, found.blob_version) == (57, 75, 8, "4.0.6")
    (graph,) = found.graphs
    assert graph.name == "cnn"
    assert (graph.spill_fill_bytes, graph.io_bytes, graph.dlbc) == (65536, 4096, False)
    assert [tensor.name for tensor in (*graph.inputs, *graph.outputs)] == ["x", "y"]
    (y,) = graph.outputs
    assert (y.shape, y.dtype) == ((1, 5), "ufixed8")
    assert y.scale == pytest.approx(4 / 255)


@pytest.mark.parametrize("dtype", [each for each in dt.BY_CODE.values() if each.kind != "string"])
def test_types_have_our_names(dtype: dt.DType) -> None:
    described = port(Tensor("a", (2, 3), dtype, ScaleOffset(0.5, -3)))
    (graph,) = read_entry({"graphs": [{"graphInputs": [described]}]}).graphs
    assert graph.inputs == (CachedTensor("a", (2, 3), dtype.name, 0.5, -3),)


def test_types_that_are_not_known_keep_the_vendors_name() -> None:
    (graph,) = read_entry({"graphs": [{"graphOutputs": [{"dataType": "QNN_DATATYPE_NEW_7"}]}]}).graphs
    assert graph.outputs[0].dtype == "NEW_7"
    assert vendor_name(dt.BFLOAT16) == "QNN_DATATYPE_BFLOAT_16"


@pytest.mark.parametrize(
    ("given_step", "scale"),
    [
        ({"scale": math.nan, "offset": 0}, None),
        ({"scale": math.inf, "offset": 0}, None),
        ({"scale": 10**400, "offset": 0}, None),
        ({"scale": 1, "offset": 0}, 1.0),
        ({"scale": True, "offset": 0}, None),
        ({"scale": 0.5}, None),
        ({"scale": 0.5, "offset": 10**30}, None),
    ],
)
def test_steps_are_finite_numbers(given_step: Any, scale: float | None) -> None:
    tensor = {"quantizeParams": {"scaleOffset": given_step}}
    (graph,) = read_entry({"graphs": [{"graphInputs": [tensor]}]}).graphs
    assert graph.inputs[0].scale == scale


def test_memory_is_known_only_if_all_graphs_tell() -> None:
    graphs = [{"graphBlobInfo": {"vtcmSize": size}} for size in (2, 8)]
    assert read_entry({"graphs": graphs}).vtcm_mb == 8
    assert read_entry({"graphs": [*graphs, {}]}).vtcm_mb is None
    assert read_entry({"graphs": [*graphs, {"graphBlobInfo": {"vtcmSize": 0}}]}).vtcm_mb == 0
    assert read_entry({}).vtcm_mb is None


ENTRY = entry()
PLACES = places(ENTRY)


@settings(max_examples=150, deadline=None)
@given(place=st.sampled_from(PLACES), value=JSON)
def test_no_entry_is_too_odd_to_read(place: list[Any], value: Any) -> None:
    changed = put_in(ENTRY, place, value)
    found = read_entry(changed if isinstance(changed, dict) else None)
    for number in (found.soc_id, found.arch, found.vtcm_mb, found.blob_bytes):
        assert number is None or 0 <= number < 2**63
