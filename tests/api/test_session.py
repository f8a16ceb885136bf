import concurrent.futures
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support.onnx_models import build, floats, node
from xdlc.errors import BackendError, UsageError, XdlcError


@pytest.fixture
def model() -> xdlc.Model:
    feeds, weights = {"x": floats(1, 4)}, {"w": floats(4, 3)}
    return xdlc.convert(
        build([node("MatMul", "x w", "h"), node("Relu", "h", "y")], feeds, weights, ["y"], 17)
    )


@pytest.fixture
def slow(tmp_path: Path, model: xdlc.Model) -> Iterator[tuple[xdlc.Session, threading.Event]]:
    """A session whose runs wait for an event."""
    free = threading.Event()
    with xdlc.Session(model) as session:
        run = session._engine.run

        def waiting(feeds: Any, **options: Any) -> Any:
            free.wait(10)
            return run(feeds, **options)

        session._engine.run = waiting  # type: ignore[method-assign, assignment]
        yield session, free
        free.set()


def test_one_class_under_two_names(model: xdlc.Model, tmp_path: Path) -> None:
    assert xdlc.session is xdlc.Session
    model.save(tmp_path / "m.dlc")
    with xdlc.Session(tmp_path / "m.dlc", runtime="cpu", threads=1) as session:
        assert isinstance(session, xdlc.Session)
        assert session.run({"x": floats(1, 4)}).keys() == {"y"}
    with pytest.raises(UsageError, match="Session has no option 'thread'"):
        xdlc.Session(model, thread=1)
    for option in ("threads", "loop_timeout"):
        with pytest.raises(UsageError, match=f"{option}.* 0"):
            xdlc.Session(model, **{option: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize("at_a_time", [1, 2])
def test_a_batch_keeps_its_order_and_names_the_sample_that_fails(model: xdlc.Model, at_a_time: int) -> None:
    samples = [{"x": floats(1, 4)} for _ in range(3)]
    with xdlc.Session(model) as session:
        session._at_a_time = at_a_time
        for feeds, found in zip(samples, session.run_batch(iter(samples)), strict=True):
            np.testing.assert_array_equal(found["y"], session.run(feeds)["y"])
        steps: list[tuple[str, int, int]] = []
        session.run_batch(samples, step=lambda *step: steps.append(step))
        assert steps == [("running", number, 3) for number in (1, 2, 3)]
        with pytest.raises(XdlcError, match="sample 1") as caught:
            session.run_batch([samples[0], {"x": floats(2, 4)}])
        assert "shape" in caught.value.problem

        def unreadable() -> Iterator[dict[str, Any]]:
            yield samples[0]
            raise UsageError("the list ends early", where="list.txt")

        with pytest.raises(UsageError) as caught:
            session.run_batch(unreadable())
        assert caught.value.where == "list.txt"
        with pytest.raises(UsageError):
            session.run_batch(samples[0])
        with pytest.raises(UsageError) as caught_ahead:
            session.run_batch(_broken(samples))
        assert caught_ahead.value.where == "third file"


def _broken(samples: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield from samples[:2]
    raise UsageError("is empty", where="third file")


def test_submitted_runs(model: xdlc.Model) -> None:
    samples = [{"x": floats(1, 4)} for _ in range(20)]
    with xdlc.Session(model) as session:
        futures = [session.submit(feeds, native=True, deadline=30) for feeds in samples]
        for feeds, future in zip(samples, futures, strict=True):
            np.testing.assert_array_equal(future.result(30)["y"], session.run(feeds)["y"])
        assert "shape" in str(session.submit({"x": floats(2, 4)}).exception(30))
        for bad in (0, -1, float("nan"), 1e300, "1"):
            with pytest.raises(UsageError, match="deadline"):
                session.submit(samples[0], deadline=bad)  # type: ignore[arg-type]


def test_a_future_fails_at_its_deadline_and_the_session_lives_on(slow: Any) -> None:
    session, free = slow
    late = session.submit({"x": floats(1, 4)}, deadline=0.02)
    with pytest.raises(BackendError, match="deadline"):
        late.result(5)
    free.set()
    assert session.submit({"x": floats(1, 4)}, deadline=30).result(30)


def test_closing_cancels_what_waits_and_ends_what_runs(slow: Any) -> None:
    session, free = slow
    futures = [session.submit({"x": floats(1, 4)}, deadline=at) for at in [None, 60] * 8]
    threading.Timer(0.05, free.set).start()
    session.close()
    done, pending = concurrent.futures.wait(futures, 0)
    assert not pending
    cancelled = [future for future in done if future.cancelled()]
    assert cancelled
    assert all(future.result().keys() == {"y"} for future in done.difference(cancelled))
    session.close()
    for use in (
        lambda: session.run({}),
        lambda: session.run_batch([{}]),
        lambda: session.submit({}),
        lambda: session.profile({}),
        session.__enter__,
    ):
        with pytest.raises(UsageError, match="the session is closed"):
            use()


def test_a_run_on_the_cpu_ends_at_its_deadline() -> None:
    from tests.support.control_flow_models import loop_model
    from xdlc.runtime.cpu import CpuSession

    session = CpuSession(loop_model(most=2**31 - 1), loop_timeout=15)
    feeds = {"x": floats(3), "n": np.ones(1, np.int32), "f": floats(3)}
    with pytest.raises(BackendError, match="deadline"):
        session.run(feeds, until=time.monotonic() + 0.05)


def test_profile(model: xdlc.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with xdlc.Session(model, threads=1) as session:
        profile = session.profile({"x": floats(1, 4)}, runs=3)
        assert profile.runs == 3
        assert {op.name for op in profile.ops} <= {"", *(op.name for op in model.main.ops)}
        assert sum(op.share for op in profile.ops) == pytest.approx(1)
        assert all(0 <= op.seconds < profile.seconds for op in profile.ops)
        assert len(profile.csv().splitlines()) == 2 + len(profile.ops)
        with pytest.raises(UsageError, match="runs is 0"):
            session.profile({"x": floats(1, 4)}, runs=0)
        monkeypatch.setattr("xdlc.runtime.profile._MOST", 20)
        with pytest.raises(BackendError, match="20 ops"):
            session.profile({"x": floats(1, 4)}, runs=20)


def test_threads_share_a_session_and_memory_stays(model: xdlc.Model) -> None:
    samples = [{"x": floats(1, 4)} for _ in range(8)]
    with xdlc.Session(model, threads=1) as session:
        expected = session.run_batch(samples)
        wrong: list[int] = []

        def work(at: int) -> None:
            for _ in range(1000):
                if not np.array_equal(session.run(samples[at])["y"], expected[at]["y"]):
                    wrong.append(at)

        memory: list[int] = []
        for _ in range(2):
            threads = [threading.Thread(target=work, args=(at,)) for at in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            memory.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize())
        assert not wrong
        assert memory[-1] < memory[0] + (4 << 20)


def test_kernels_that_hold_several_ops_are_profiled_as_the_first() -> None:
    nodes = [
        node("Conv", "x w", "h", pads=[1, 1, 1, 1]),
        node("Relu", "h", "i"),
        node("MaxPool", "i", "y", kernel_shape=[2, 2]),
    ]
    feeds = {"x": floats(1, 16, 8, 8)}
    model = xdlc.convert(build(nodes, feeds, {"w": floats(32, 16, 3, 3)}, ["y"], 17))
    with xdlc.Session(model, threads=1) as session:
        found = session.profile({"x": floats(*session.graph.inputs[0].shape)}, runs=1)
    names = {op.type: op.name for op in found.ops}
    assert {op.name for op in model.main.ops if op.type in ("Conv2d", "PoolMax2d")} <= set(names.values())


def test_kernels_of_udos_are_profiled_by_their_own_time(tmp_path: Path) -> None:
    from tests.runtime.udo.conftest import PYTHON
    from tests.runtime.udo.udo_graphs import between_relus
    from xdlc.ir import Model, f32

    (tmp_path / "kernels.py").write_text(PYTHON)
    model = Model({"graph": between_relus("Scale", {"factor": f32(3)})})
    with xdlc.Session(model, udo_package_path=tmp_path / "kernels.py") as session:
        feeds = {tensor.name: floats(*tensor.shape) for tensor in session.graph.inputs}
        found = session.profile(feeds, runs=2)
    (custom,) = (op for op in found.ops if op.type == "Math::Scale")
    assert 0 < custom.seconds < found.seconds


def test_a_callback_may_close_the_session(model: xdlc.Model) -> None:
    session, raised = xdlc.Session(model), list[BaseException]()
    closed = threading.Event()

    def close(_: object) -> None:
        try:
            session.close()
        except BaseException as error:
            raised.append(error)
        closed.set()

    futures = [session.submit({"x": floats(1, 4)}) for _ in range(20)]
    futures[10].add_done_callback(close)
    assert closed.wait(10)
    concurrent.futures.wait(futures, 10)
    assert not raised
    assert all(future.done() for future in futures)
    with pytest.raises(UsageError, match="closed"):
        session.submit({"x": floats(1, 4)})
    session.close()
