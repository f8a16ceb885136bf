"""The SoC tables."""

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import xdlc
from xdlc.errors import UsageError
from xdlc.targets import all_archs, all_socs, arch_numbers, find_arch, find_soc
from xdlc.targets.loader import CAPABILITIES


def test_ids_and_names_mean_one_soc_each():
    socs = all_socs()
    names = [name for soc in socs for name in (soc.name, *soc.aliases)]
    assert len({soc.id for soc in socs}) == len(socs) > 0
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


@pytest.mark.parametrize("word", ["Snapdragon 8 Gen 3", "8 gen 3", "SM8650"])
def test_a_soc_has_its_marketing_name(word):
    assert find_soc(word).name == "sm8650"


def test_an_unknown_name_leads_to_the_name_of_the_part():
    with pytest.raises(UsageError) as caught:
        find_soc("galaxy s24")
    assert "sm8650" in str(caught.value.fix)


def test_the_guide_has_names_and_generations_of_the_tables():
    page = (Path(__file__).parents[2] / "docs" / "guides" / "choosing-socs.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("|")]
    columns = dict(zip(rows[0], rows[2][1:], strict=True))
    pairs = [(arch, *pair.split(": ")) for arch, cell in columns.items() for pair in cell.split(", ")]
    assert len(pairs) > len(columns)
    assert [(f"v{find_soc(name).arch}", find_soc(name).name.upper()) for _, name, _ in pairs] == [
        (arch, part) for arch, _, part in pairs
    ]


def test_a_table_of_a_new_generation_is_enough(tmp_path):
    package = Path(xdlc.__file__).parent
    shutil.copytree(package, tmp_path / "xdlc", ignore=shutil.ignore_patterns("__pycache__"))
    newest = find_arch(max(arch_numbers()))
    text = (package / "targets" / "data" / f"{newest.name}.toml").read_text()
    text = text[: text.index("[[soc]]")].replace(f"arch = {newest.number}", "arch = 97")
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("default_soc"))
    soc = '[[soc]]\nid = 9797\nname = "sm9797"\nvtcm_mb = 8\nfp16 = true\n'
    (tmp_path / "xdlc" / "targets" / "data" / "v97.toml").write_text(text + soc)
    check = """
from xdlc.opdefs import backends
from xdlc.prepare.htp.targets import targets
from xdlc.targets import find_soc
from xdlc.udo.config.members import ARCHS, cores_of
assert backends.unknown(["DSP_V97"]) == [] and backends.overlap("HTP", "DSP_V97")
assert ARCHS[-1] == "v97" and cores_of(["HTP"])[1][-1] == "v97"
(one,) = targets([], ["v97"])
assert one.soc is find_soc("sm9797") and targets(["sm9797"])[0].soc is one.soc
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", check], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
