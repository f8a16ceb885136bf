import pytest

from tests.support.cache_models import put_cache
from tests.support.htp_models import cnn
from xdlc.errors import ConstraintError, UsageError
from xdlc.ir import Model, raw_data, static
from xdlc.runtime.htp.cache_verdict import Choice, choose, refuse_to_compile
from xdlc.runtime.htp.session import with_outputs
from xdlc.targets import all_socs


def cached(*socs: str) -> Model:
    model = cnn(quantized=True)
    for soc in socs:
        name, _, vtcm = soc.partition(":")
        put_cache(model, name, vtcm_mb=int(vtcm) if vtcm else None)
    return model


def chosen(model: Model, soc: str | None = None, mode: str = "permissive") -> Choice:
    return choose(model, soc, outputs=["y"], mode=mode)


@pytest.mark.parametrize(
    ("held", "soc", "record"),
    [
        (["sm8450", "sm8650", "sm8550"], "sm8550", "htp.cache.sm8550.0"),
        (["sm8450", "sm8650", "sm8550"], "sm8750", "htp.cache.sm8650.0"),
        (["sm8450:2", "sm7450", "sm8475:8"], "sm8550", "htp.cache.sm8475.0"),
        (["sm8650:2", "sm8650:8"], "sm8650", "htp.cache.sm8650.1"),
        (["sm8550", "sm7450"], "sm8450", "htp.cache.sm7450.0"),
        (["sm8550"], "sm8450", None),
        ([], "sm8450", None),
    ],
)
def test_the_best_of_the_usable_caches_is_taken(held: list[str], soc: str, record: str | None) -> None:
    choice = chosen(cached(*held), soc)
    assert choice.soc == soc
    assert next((cache.name for cache in choice.records), None) == record


@pytest.mark.parametrize(
    ("held", "soc", "mode"),
    [
        (["sm8450", "sm8650"], "sm8450", "permissive"),
        (["sm8450:2", "sm8550"], "sm8550", "strict"),
        (["sm8450:2"], "sm8650", "strict"),
        (["sm8450"], "sm8650", "always_generate_new"),
        ([], "sm8650", "permissive"),
    ],
)
def test_without_a_soc_it_is_that_of_the_first_usable_cache(held: list[str], soc: str, mode: str) -> None:
    choice = chosen(cached(*held), None, mode)
    assert choice.soc == soc
    assert bool(choice.records) == (
        mode != "always_generate_new" and any(name.startswith(soc) for name in held)
    )


def test_reasons_are_told_for_the_device_that_is_taken() -> None:
    choice = chosen(cached("sm8450", "sm8650"), "sm7450")
    assert choice.reasons == [
        "htp.cache.sm8450.0: vtcm: found 8 MB, accepted 2 MB or less",
        "htp.cache.sm8650.0: arch: found v75, accepted v69 or lower; vtcm: found 8 MB, accepted 2 MB or less",
    ]
    error = refuse_to_compile(choice)
    assert error.problem == f"no cache is usable on sm7450: {'; '.join(choice.reasons)}"
    assert "the model has no cache" in refuse_to_compile(chosen(cached(), "sm7450")).problem


def test_a_damaged_record_is_not_taken() -> None:
    model = cached("sm8650", "sm8550")
    model.records["htp.cache.sm8650.0"] = raw_data(b"x")
    choice = chosen(model)
    assert choice.soc == "sm8550"
    assert "has 1 bytes" in chosen(model, "sm8650").reasons[0]


def test_caches_of_a_graph_that_changed_are_not_taken() -> None:
    model = cached("sm8650")
    tensor = next(held for held in model.main.tensors.values() if held.is_static)
    tensor.data = static("w", tensor.numpy() // 2).data
    choice = chosen(model)
    assert not choice.records
    assert "htp.cache.sm8650.0: graph: found hash " in choice.reasons[0]


def test_devices_that_are_not_known_or_have_no_htp() -> None:
    with pytest.raises(ConstraintError, match="sm8250 has no HTP"):
        chosen(cached("sm8650"), "sm8250")
    with pytest.raises(UsageError, match="unknown SoC"):
        chosen(cached("sm8650"), "sm9999")
    unknown = next(soc.name for soc in all_socs() if not soc.arch)
    choice = chosen(cached("sm8650"), unknown)
    assert not choice.records
    assert f"architecture of {unknown}'s DSP is unknown" in choice.reasons[0]


def test_outputs_are_added_to_a_copy() -> None:
    model = cached("sm8650")
    assert with_outputs(model, ["y"]) is model
    changed = with_outputs(model, ["pool", "y", "pool"])
    assert [tensor.name for tensor in changed.main.outputs] == ["y", "pool"]
    assert [tensor.name for tensor in model.main.outputs] == ["y"]
    with pytest.raises(UsageError, match="does not compute the tensor 'x'"):
        with_outputs(model, ["x"])
    with pytest.raises(UsageError, match="has no tensor 'pol'"):
        with_outputs(model, ["pol"])
