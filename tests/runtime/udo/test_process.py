"""The child process of kernels: it ends with its session, and takes nothing along."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.udo.udo_graphs import custom_graph
from xdlc.errors import BackendError, XdlcError
from xdlc.ir import f32
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.udo import Kernels, worker_client
from xdlc.runtime.udo.worker_client import SERVICE
from xdlc.worker import channel, process
from xdlc.worker.process import Process

X = np.float32([[1, 2, 3], [4, 5, 6]])
PIDS = """\
import os
import numpy as np
from xdlc.udo import kernel
@kernel('Math', 'Pid')
def f(inputs, params, outputs):
    return np.full((1,), os.getpid(), np.int32)
"""


def pid_of(kernels: Kernels) -> int:
    from xdlc.ir.dtype import INT32

    (op,) = custom_graph("Pid", output=(1,), result=INT32).ops
    return int(kernels.operation(op).run([X])[0][0])


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    path = tmp_path / "pids.py"
    path.write_text(PIDS)
    return path


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def ends(pid: int, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_running(pid)


def test_nothing_is_started_before_it_is_needed(pids: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(
        worker_client, "Process", lambda service: started.append(Process(service)) or started[-1]
    )
    with Kernels(pids) as kernels:
        assert not started
        assert pid_of(kernels) != os.getpid()
        assert len(started) == 1


def test_closing_ends_and_reaps_it(pids: Path) -> None:
    with Kernels(pids) as kernels:
        pid = pid_of(kernels)
        assert is_running(pid)
    assert not Path(f"/proc/{pid}").exists()
    kernels.close()
    with pytest.raises(BackendError, match="are closed"):
        pid_of(kernels)


def test_garbage_collection_ends_it(pids: Path) -> None:
    kernels = Kernels(pids)
    pid = pid_of(kernels)
    del kernels
    gc.collect()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.slow
def test_it_leaves_no_files_descriptors_or_threads(
    python_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    def once() -> None:
        with Kernels(python_file) as kernels:
            session = CpuSession(custom_graph("Scale", {"factor": f32(2)}), kernels=kernels, threads=1)
            session.run({"x0": X})
            assert list(folder.iterdir()) == []

    def many(count: int) -> int:
        (op,) = custom_graph("Scale", {"factor": f32(2)}).ops
        with Kernels(python_file) as kernels:
            held = [kernels.operation(op) for _ in range(count)]
            for operation in held:
                operation.run([X])
            return len(os.listdir("/proc/self/fd"))

    once()
    assert many(9) == many(4)
    gc.collect()
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(3):
        once()
    gc.collect()
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before


def test_processes_that_a_kernel_starts_end_with_it(tmp_path: Path) -> None:
    from xdlc.ir.dtype import INT32

    path = tmp_path / "k.py"
    path.write_text(
        "import subprocess\nimport numpy as np\nfrom xdlc.udo import kernel\n"
        "@kernel('Math', 'Pid')\ndef f(inputs, params, outputs):\n"
        "    return np.full((1,), subprocess.Popen(['sleep', '100']).pid, np.int32)\n"
    )
    (op,) = custom_graph("Pid", output=(1,), result=INT32).ops
    with Kernels(path) as kernels:
        pid = int(kernels.operation(op).run([X])[0][0])
        assert is_running(pid)
    assert ends(pid)


def _script(pids: Path, *lines: str) -> subprocess.Popen[str]:
    head = [
        "import os, signal, sys, time",
        "from pathlib import Path",
        "from tests.runtime.udo.test_process import pid_of",
        "from xdlc.runtime.udo import Kernels",
        f"kernels = Kernels({str(pids)!r})",
        "pid = pid_of(kernels)",
    ]
    return subprocess.Popen(
        [sys.executable, "-c", "\n".join([*head, *lines])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def test_a_parent_that_is_killed_takes_it_along_even_if_a_copy_of_it_lives(pids: Path) -> None:
    parent = _script(
        pids,
        "copy = os.fork()",
        "if not copy:",
        "    sys.stdout.close(); sys.stderr.close(); os.close(1); os.close(2)",
        "    time.sleep(30); os._exit(0)",
        "print(pid, copy, flush=True)",
        "time.sleep(60)",
    )
    assert parent.stdout is not None
    pid, copy = map(int, parent.stdout.readline().split())
    assert is_running(pid)
    parent.kill()
    parent.communicate(timeout=20)
    assert ends(pid)
    os.kill(copy, signal.SIGKILL)


def test_a_copy_of_the_parent_gets_a_child_of_its_own(pids: Path) -> None:
    parent = _script(
        pids,
        "reader, writer = os.pipe()",
        "copy = os.fork()",
        "if not copy:",
        "    os.write(writer, str(pid_of(kernels)).encode())",
        "    kernels.close()",
        "    os._exit(0)",
        "status = os.waitpid(copy, 0)[1]",
        "other = int(os.read(reader, 100))",
        "assert status == 0 and other != pid, (status, other, pid)",
        "assert not Path(f'/proc/{other}').exists()",
        "assert pid_of(kernels) == pid",
        "kernels.close()",
        "print('done')",
    )
    out, err = parent.communicate(timeout=60)
    assert out.strip() == "done", err


def test_the_end_of_the_program_is_its_end(pids: Path) -> None:
    parent = _script(pids, "print(pid)")
    out, err = parent.communicate(timeout=60)
    assert parent.returncode == 0, err
    assert err == ""
    assert not Path(f"/proc/{out.strip()}").exists()


@pytest.fixture
def control_c() -> Iterator[None]:
    """Let SIGINT interrupt, which a program in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("control_c")
def test_control_c_interrupts_a_kernel_and_the_next_run_works(tmp_path: Path) -> None:
    path = tmp_path / "slow.py"
    path.write_text(
        "import time\nimport numpy as np\nfrom xdlc.udo import kernel\n"
        "@kernel('Math', 'Slow')\ndef f(inputs, params, outputs):\n"
        "    time.sleep(float(inputs[0][0, 0]))\n    return inputs[0]\n"
    )
    with Kernels(path) as kernels:
        session = CpuSession(custom_graph("Slow"), kernels=kernels)
        session.run({"x0": X * 0})
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            session.run({"x0": X * 60})
        timer.join()
        assert time.monotonic() - start < 30
        np.testing.assert_array_equal(session.run({"x0": X * 0})["y"], X * 0)


def test_the_childs_end_of_the_line_is_none_of_its_own_descriptors() -> None:
    kept = os.dup(0)
    os.close(0)  # as daemons do
    try:
        line, far_end = channel.pair()
        assert far_end.fileno() > 2
        line.close()
        far_end.close()
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.mark.parametrize("call", ["socketpair", "fcntl", "Popen"])
def test_a_child_that_cannot_be_had_leaves_nothing_open(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    before = sorted(os.listdir("/proc/self/fd"))
    owner = {
        "socketpair": process.socket,
        "fcntl": process.fcntl,
        "Popen": process.subprocess,
    }[call]
    monkeypatch.setattr(owner, call, full)
    with pytest.raises(XdlcError, match="Too many open files") as caught:
        Process(SERVICE)
    assert caught.value.fix
    assert sorted(os.listdir("/proc/self/fd")) == before
