"""Differential fuzzing: generators, comparison, reduction, mended findings."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuzz.differential.cases import judged
from fuzz.differential.frameworks import Framework, Refused, Undefined
from fuzz.differential.growing import Grower, grow
from fuzz.differential.judging import Difference, distance, spread
from fuzz.differential.networks import FILE, Network, Node, Tensor
from fuzz.differential.onnx_engine import Onnx, engine
from fuzz.differential.onnx_graphs import TARGETS, fixed
from fuzz.differential.reducing import smaller
from fuzz.run import Campaign, Plan, attempt, name_of
from fuzz.targets import Target

RIGHT = ("equal", "unstable", "quantized", "refused by both")
REGRESSIONS = sorted(Path(__file__).with_name("regressions").glob("*.json"))


def framework(name: str) -> Framework:
    """Return the engine of a network; the test is skipped if it is not installed."""
    if name == "onnx":
        return engine()
    if name == "tflite":
        pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (extra test-frameworks)")
        from fuzz.differential import tflite_engine

        return tflite_engine.engine()
    pytest.importorskip("torch", reason="torch is not installed (extra test-frameworks)")
    from fuzz.differential import torch_engine

    kinds = (torch_engine.Torch, torch_engine.Exported, torch_engine.Scripted)
    return torch_engine.engine(next(kind for kind in kinds if kind.name == name))


def marked(path: Path) -> Any:
    """Return a regression as a parameter; those of frameworks are marked."""
    network = Network.read({FILE: path.read_bytes()})
    marks = [] if network.framework == "onnx" else [pytest.mark.frameworks]
    words = ("refused by xdlc",) if path.stem.startswith("refused_") else RIGHT
    return pytest.param(network, words, id=path.stem, marks=marks)


ALONE = """
import sys, tempfile
from pathlib import Path
from fuzz.differential.cases import judged
from fuzz.differential.keras_layers import engine
from fuzz.differential.networks import FILE, Network
for path in map(Path, sys.argv[1:]):
    with tempfile.TemporaryDirectory() as folder:
        print(path.stem, judged(engine(), Network.read({FILE: path.read_bytes()}), Path(folder)), sep="|")
"""


@pytest.mark.frameworks
def test_mended_findings_of_keras():
    pytest.importorskip("torch", reason="torch is not installed (extra test-frameworks)")
    paths = [str(path) for path in REGRESSIONS if "keras_" in path.stem]
    # A process has one backend of Keras, which other tests choose too.
    run = subprocess.run([sys.executable, "-c", ALONE, *paths], capture_output=True, text=True, check=True)
    for line in run.stdout.splitlines():
        name, _, word = line.partition("|")
        expected = "refused by xdlc" if name.startswith("refused_") else "equal"
        assert word.startswith(expected), line
    assert len(run.stdout.splitlines()) == len(paths)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("network", "words"), [marked(path) for path in REGRESSIONS if "keras_" not in path.stem]
)
def test_mended_findings(network: Network, words: tuple[str, ...], tmp_path: Path):
    word = judged(framework(network.framework), network, tmp_path)
    assert word.partition(":")[0] in words


def chain() -> Network:
    """Return a network of four nodes with two outputs."""
    nodes = (
        Node("Relu", ("x",), ("a",)),
        Node("Mul", ("a", "w"), ("b",)),
        Node("Celu", ("b",), ("c",), {"alpha": 2.0}),
        Node("Neg", ("c",), ("d",)),
    )
    weight = Tensor("float32", (4,), None, 3)
    return Network("onnx", {"x": Tensor("float32", (2, 4))}, {"w": weight}, nodes, ("c", "d"))


def test_a_network_is_its_file():
    network = replace(chain(), ways=("saved", "optimized"), sizes={"x": (5, 4)}, edge=True)
    assert Network.read(network.files()) == network
    assert Network.read(chain().files()) == chain()


@pytest.mark.parametrize("way", ["saved", "optimized", "to_onnx", "quantized", "quantized16"])
def test_ways_of_a_right_network(way: str, tmp_path: Path):
    assert judged(engine(), replace(chain(), ways=(way,)), tmp_path) in ("equal", "quantized")


def test_a_second_run_of_other_sizes(tmp_path: Path):
    network = replace(chain(), ways=("resized",), sizes={"x": (5, 4)})
    assert judged(engine(), network, tmp_path) == "equal"


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let outputs of networks with a Celu be a hundredth too large."""

    def named(_: Onnx, network: Network, outputs: Mapping[str, Any]) -> dict[str, Any]:
        factor = np.float32(1.01 if "Celu" in network.ops() else 1)
        return {name: each * factor for name, each in outputs.items()}

    monkeypatch.setattr(Onnx, "named", named)


@pytest.mark.usefixtures("wrong")
def test_a_wrong_result_is_a_finding(tmp_path: Path):
    with pytest.raises(Difference) as error:
        judged(engine(), chain(), tmp_path)
    assert error.value.kind == "wrong, float"
    assert name_of(error.value) == "wrong, float: Relu Mul Celu Neg"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([1.0], [1.0001]),
        ([1.0, 1e-3], [1.0, 2e-3]),
        ([np.nan], [1.0]),
        ([np.inf], [-np.inf]),
        ([[1.0]], [1.0]),
    ],
)
def test_numbers_that_differ(ours: Any, theirs: Any):
    assert distance(np.asarray(ours, np.float32), np.asarray(theirs, np.float32))


def test_numbers_that_do_not():
    theirs = np.asarray([1, np.nan, np.inf, 1e-9], np.float32)
    assert not distance(theirs * np.float32(1 + 1e-6), theirs)
    assert distance(np.asarray([3]), np.asarray([4]))


def test_ties_are_unstable(tmp_path: Path):
    nodes = (Node("Mul", ("x", "w"), ("a",)), Node("Floor", ("a",), ("b",)))
    values = Tensor("float32", (2,), (3.0, 7.0))
    weight = Tensor("float32", (), (float(np.float32(1 / 3)),))
    network = Network("onnx", {"x": values}, {"w": weight}, nodes, ("b",))
    apart = spread(engine(), network, network.feeds(), 2.0**-22)
    assert apart["b"] == pytest.approx(1, abs=1e-3)


@pytest.mark.usefixtures("wrong")
def test_findings_are_made_smaller(tmp_path: Path):
    target = Target(
        "chain",
        tuple,
        lambda folder, rng: judged(engine(), Network.read({FILE: (folder / FILE).read_bytes()}), folder),
        (FILE,),
        lambda rng: chain().files(),
        engine=("onnxruntime",),
        smaller=lambda files: [each.files() for each in smaller(engine(), Network.read(files))],
    )
    campaign = Campaign(Plan(target, 0), tmp_path)
    campaign.run(1, 60)
    (name,) = campaign.findings
    assert name == "wrong, float: Celu"
    (folder,) = (path for path in (tmp_path / "findings").iterdir() if path.is_dir())
    network = Network.read({FILE: (folder / FILE).read_bytes()})
    assert [node.op for node in network.nodes] == ["Celu"]
    assert max(size for each in network.inputs.values() for size in each.shape) == 1


def test_growing_ends_without_a_recipe_that_fits():
    grower = Grower(random.Random(0), engine())
    with pytest.raises(Undefined):
        grow(grower, [lambda _: False], 3)


def test_an_invalid_whole_is_refused_though_each_node_runs():
    shape = Tensor("int64", (1,), (6,))
    network = Network(
        "onnx",
        {"x": Tensor("float32", (6,))},
        {"s": shape},
        (Node("Reshape", ("x", "s"), ("y",)), Node("Relu", ("y",), ("y",))),
        ("y",),
    )
    with pytest.raises(Refused):
        engine().evaluate(network, network.feeds())


@pytest.mark.frameworks
def test_the_step_of_a_resize_is_a_share_of_its_floats():
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (extra test-frameworks)")
    step_of, node = framework("tflite").step_of, Node("RESIZE_BILINEAR")
    assert step_of(node, 0, np.full(2, 1e-6, np.float32)) < 1e-11
    assert step_of(node, 0, np.ones(2, np.int8)) == 0
    assert step_of(replace(node, quantization=((0.5, 0),)), 0, np.ones(2, np.int8)) == 1


def test_a_case_is_always_the_same():
    first, second = (fixed(random.Random("7")) for _ in range(2))
    assert first == second
    assert first.nodes


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_generators(target: Target, tmp_path: Path):
    plan = Plan(target, 0)
    words = [attempt(plan.target, tmp_path, plan.case(number)) for number in range(5)]
    assert words.count("equal") > 1


def test_a_missing_engine_is_named():
    assert (
        Target("one", tuple, lambda folder, rng: "", engine=("no_such_engine",)).missing() == "no_such_engine"
    )
    assert not Target("one", tuple, lambda folder, rng: "", engine=("numpy",)).missing()
