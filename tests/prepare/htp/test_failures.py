"""A failure of one SoC affects neither the others nor the source file."""

from pathlib import Path

import pytest

from tests.support import services
from tests.support.commands import invoke
from tests.support.htp_models import cnn, needs_htp
from xdlc.cli.tools.graph_prepare import main
from xdlc.container import load
from xdlc.container.caches import caches
from xdlc.errors import BackendError
from xdlc.prepare.htp import Prepared, prepare_all

pytestmark = needs_htp
SEVEN = ("sm8350", "sm8450", "sa8295", "sm8550", "sm8650", "sm8750", "qcs6490")
FAILING = "sm8550"

# The worker, which does what a test says in the place of compiling for one SoC.
SCRIPT = """
import os, signal, stat, time
from pathlib import Path
from xdlc.runtime.htp import service

compiles = service._compile

def garble():
    for number in range(3, 40):
        path = f"/proc/self/fd/{{number}}"
        if os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode):
            os.write(number, bytes([255] * 9))

def compile_(request, files, step):
    if request["soc_id"] == 43:
        folder = Path(request["folder"])
        step("compiling graph cnn")
        {what}
    return compiles(request, files, step)

service._compile = compile_
commands = service.commands
"""


def inject(monkeypatch: pytest.MonkeyPatch, folder: Path, what: str) -> None:
    services.htp(monkeypatch, folder, SCRIPT.format(what=what))


def test_a_crash_leaves_six_of_seven_done_and_says_which_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inject(monkeypatch, tmp_path, "os.kill(os.getpid(), signal.SIGSEGV)")
    source, target = tmp_path / "m.dlc", tmp_path / "p.dlc"
    cnn(quantized=True).save(source)
    before = source.read_bytes()
    words = ["--input_dlc", source, "--output_dlc", target, "--htp_socs", ",".join(SEVEN)]
    done = invoke(main, *words, code=BackendError.exit_code)
    assert (
        f"{source}: {FAILING}: the vendor's library ended with SIGSEGV while compiling graph cnn"
        in done.output
    )
    assert source.read_bytes() == before
    found = caches(load(target))
    assert {cache.soc for cache in found} == set(SEVEN) - {FAILING}
    assert [cache.problem for cache in found] == [None] * 6
    invoke(main, *words, code=BackendError.exit_code)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "fix: if memory ran out, free memory"),
        ("raise MemoryError()", "the system refuses: no memory is left"),
        ("raise ValueError(7)", "ended with status 1 while compiling graph cnn; it printed"),
        ("garble(); os._exit(0)", "wrote into the channel that carries answers while compiling graph cnn"),
        ("return {'refused': []}", "reported no error, but wrote no cache"),
        (
            "(folder / 'cache.bin').write_bytes(b'x' * 99); return {'refused': [], 'entry': {}}",
            "the compiler's result is listed without header, version",
        ),
        (
            "found = compiles(request, files, step); os.truncate(folder / 'cache.bin', 5000); return found",
            "the compiler's result has 5000 bytes, but its header needs",
        ),
        (
            "return compiles({**request, 'soc_id': 57}, files, step)",
            "is named after sm8550, which has the id 43, but was compiled for the id 57",
        ),
    ],
)
def test_every_other_way_to_fail_is_told_and_harms_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str, said: str
) -> None:
    inject(monkeypatch, tmp_path, what)
    result: Prepared = prepare_all(cnn(quantized=True), [FAILING, "sm8650"])
    (problem,) = result.problems
    assert isinstance(problem, BackendError)
    assert str(problem).startswith(f"model: {FAILING}: ")
    assert said in str(problem)
    assert [cache.soc for cache in caches(result.model)] == ["sm8650"]
    assert (result.failed, result.done, result.kept) == ((FAILING,), ("sm8650",), ())


def test_a_kill_while_an_op_is_validated_does_not_condemn_the_op(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    step = '\'["validate", "cnn", "conv2d_a", "Conv2d"]\''
    inject(monkeypatch, tmp_path, f"step({step}); os.kill(os.getpid(), signal.SIGKILL)")
    (problem,) = prepare_all(cnn(quantized=True), [FAILING]).problems
    assert isinstance(problem, BackendError)
    assert "SIGKILL" in problem.problem
    assert "memory" in str(problem.fix)


def test_a_crash_that_does_not_repeat_costs_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    step = '\'["validate", "cnn", "conv2d_a", "Conv2d"]\''
    crash = f"open({str(tmp_path / 'flag')!r}, 'x'); step({step}); os.kill(os.getpid(), signal.SIGSEGV)"
    inject(monkeypatch, tmp_path, f"if not os.path.exists({str(tmp_path / 'flag')!r}): {crash}")
    result = prepare_all(cnn(quantized=True), [FAILING])
    assert not result.problems
    assert [cache.soc for cache in caches(result.model)] == [FAILING]


def test_one_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inject(monkeypatch, tmp_path, "time.sleep(60)")
    (problem,) = prepare_all(cnn(quantized=True), [FAILING], timeout=1).problems
    assert "did not end within 1 s" in problem.problem
