"""The SoC tables."""

import itertools

import pytest

from xdlc.errors import UsageError
from xdlc.targets import all_archs, all_socs, find_arch, find_soc
from xdlc.targets.loader import CAPABILITIES


def test_ids_and_names_mean_one_soc_each():
    socs = all_socs()
    names = [name for soc in socs for name in (soc.name, *soc.aliases)]
    assert len({soc.id for soc in socs}) == len(socs) == 106
    assert len(set(names)) == len(names)
    assert all(name == name.lower() and not name.isdigit() for name in names)


@pytest.mark.parametrize("wanted", ["sm8650", "SM8650", " Sm8650 ", "57", 57])
def test_a_soc_is_found_by_name_in_any_case_and_by_id(wanted):
    soc = find_soc(wanted)
    assert (soc.name, soc.id, soc.arch, soc.vtcm_mb, soc.fp16, soc.hta) == ("sm8650", 57, 75, 8, True, False)


def test_conflicting_ids_go_to_the_name_in_cache_records():
    assert find_soc("qcm6490").id == find_soc("qcs6490").id == 93
    assert find_soc("sm7325").id == 35
    assert find_soc("sm8350").id == 30


def test_an_unknown_soc_names_its_neighbours():
    with pytest.raises(UsageError, match="unknown SoC 'sm8560'") as caught:
        find_soc("sm8560")
    assert "sm8650" in (caught.value.fix or "")
    with pytest.raises(UsageError, match="unknown SoC 424242"):
        find_soc(424242)


def test_hta_exists_only_in_the_generation_of_v66():
    assert {soc.name for soc in all_socs() if soc.hta} == {"sm8150", "sm8250", "sm7250", "sa8195"}
    assert all(soc.arch == 66 and not soc.has_htp for soc in all_socs() if soc.hta)


def test_capabilities_only_grow_from_one_generation_to_the_next():
    known = [arch for arch in all_archs() if arch.number]
    for older, newer in itertools.pairwise(known):
        for capability in CAPABILITIES:
            assert getattr(newer, capability) >= getattr(older, capability), (newer.name, capability)


def test_capabilities_of_some_generations():
    assert not find_arch(66).per_channel
    assert find_arch(68).a16w4
    assert not find_arch(68).lpbq
    assert not find_arch(69).a16w16
    assert find_soc("sm8550").capabilities.weight_sharing
    assert find_arch(81).multi_core
    with pytest.raises(UsageError, match="unknown DSP architecture v70"):
        find_arch(70)
