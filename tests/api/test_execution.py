from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import xdlc
from xdlc.api import execution, runtimes
from xdlc.errors import UsageError
from xdlc.options import options_of
from xdlc.options.running import RunOptions
from xdlc.registry import module_names


def test_unknown_runtime(models: Any) -> None:
    with pytest.raises(UsageError, match="'gpu' is not one of aip, cpu, htp"):
        xdlc.run(xdlc.convert(models.save(models.cnn())), {}, runtime="gpu")


def test_unknown_runtime_options(models: Any) -> None:
    model = xdlc.convert(models.save(models.cnn()))
    feeds = {"x": np.zeros((1, 3, 16, 16), np.float32)}
    with pytest.raises(UsageError, match="soc requires runtime='htp'"):
        xdlc.run(model, feeds, soc="sm8650")
    with pytest.raises(UsageError, match="run has no option 'socs'") as caught:
        xdlc.run(model, feeds, runtime="htp", socs="sm8650")
    assert "nearest: soc" in str(caught.value)
    assert xdlc.run(model, feeds, native=True).keys() == {"y"}


def test_sections_of_a_model(tmp_path: Path) -> None:
    from tests.support.section_models import feeds_of, residual
    from xdlc.errors import ContainerError
    from xdlc.prepare import hta

    model = residual()
    prepared = hta.prepare(model, "13-13").model
    prepared.save(tmp_path / "m.dlc")
    feeds = feeds_of(model)
    expected = xdlc.run(model, feeds, native=True)
    for source in (prepared, tmp_path / "m.dlc"):
        found = xdlc.run(source, feeds, "aip", native=True)
        for name, array in xdlc.run(source, feeds, use_aip=True, native=True).items():
            np.testing.assert_array_equal(array, found[name])
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)
    with pytest.raises(UsageError, match="run has no option 'thread'"):
        xdlc.run(prepared, feeds, "aip", thread=2)
    with pytest.raises(ContainerError, match="has no AIP record"):
        xdlc.run(model, feeds, "aip")


@pytest.mark.parametrize("runtime", ["cpu", "aip"])
def test_a_session_with_kernels_reads_the_model_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: Any
) -> None:
    from tests.support.section_models import feeds_of, residual
    from xdlc import container
    from xdlc.prepare import hta

    model = residual()
    hta.prepare(model, "13-13").model.save(tmp_path / "m.dlc")
    (tmp_path / "unused.py").write_text("")
    paths = []
    load = container.load
    monkeypatch.setattr(
        container, "load", lambda path, **options: paths.append(path) or load(path, **options)
    )
    xdlc.run(tmp_path / "m.dlc", feeds_of(model), runtime, udo_package_path=tmp_path / "unused.py")
    assert paths == [tmp_path / "m.dlc"]


def test_a_session_runs_again_and_again(models: Any) -> None:
    model = xdlc.convert(models.save(models.cnn()))
    inner = model.main.ops[1].outputs[0].name
    rng = np.random.default_rng(0)
    with xdlc.session(model, outputs=[inner], threads=1) as session:
        assert session.graph is model.main
        for _ in range(2):
            feeds = {"x": rng.standard_normal((1, 3, 16, 16)).astype(np.float32)}
            found = session.run(feeds)
            assert found.keys() == {"y", inner}
            np.testing.assert_allclose(found["y"], xdlc.run(model, feeds)["y"], rtol=1e-6)
        with pytest.raises(UsageError, match="feeds is of type ndarray"):
            session.run(feeds["x"])
    with pytest.raises(UsageError, match="threads requires runtime='aip' or runtime='cpu'"):
        xdlc.Session(model, runtime="htp", threads=2)
    with pytest.raises(UsageError, match="soc requires runtime='htp'") as caught:
        xdlc.session(model, "aip", soc="sm8250")
    assert caught.value.fix == "add runtime='htp', or omit soc"


def test_a_model_in_memory_is_converted(models: Any) -> None:
    proto = models.cnn()
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)}
    expected = xdlc.run(xdlc.convert(models.save(proto)), feeds)["y"]
    steps: list[tuple[str, int, int]] = []
    made = xdlc.convert(proto, step=lambda *step: steps.append(step))
    np.testing.assert_array_equal(xdlc.run(made, feeds)["y"], expected)
    count = len(proto.graph.node)
    assert steps == [*(("importing", done, count) for done in range(1, count + 1)), ("optimizing", 0, 0)]
    assert not xdlc.check(proto).problems


def test_runtimes_have_options_of_run_alone() -> None:
    assert set(get_args(execution.Runtime)) == set(runtimes.RUNTIMES.all())
    assert tuple(sorted(runtimes.RUNTIMES.all())) == module_names("xdlc.api.runtimes")
    for runtime in runtimes.RUNTIMES.all().values():
        assert runtime.options <= options_of(RunOptions).keys()
