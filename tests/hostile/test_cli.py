"""Tools on bad input: a clear message, a non-zero exit, no partial output."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import xdlc
from xdlc.errors import UnsupportedOp
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.dtype import FLOAT32

MODULES = {
    "xconv-onnx-to-dlc": "onnx_to_dlc",
    "xdlc-quant": "quantize",
    "xdlc-graph-prepare": "graph_prepare",
    "xdlc-info": "info",
    "xdlc-net-run": "net_run",
    "xdlc-to-onnx": "to_onnx",
}


def call(tool: str, *words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a tool, in this process: to start one takes longer than most tools need."""
    main = importlib.import_module(f"xdlc.cli.tools.{MODULES[tool]}").main
    with contextlib.chdir(cwd or os.getcwd()):
        done = CliRunner().invoke(main, list(map(str, words)), prog_name=tool)
    return subprocess.CompletedProcess([], done.exit_code, done.stdout, done.stderr)


def call_process(tool: str, *words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a tool in a process of its own."""
    code = f"from xdlc.cli.tools.{MODULES[tool]} import main; main(prog_name={tool!r})"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=False, **options
    )


def refused(done: subprocess.CompletedProcess[str], *parts: str, code: int | None = None) -> str:
    """Check that a call failed as every failure should; return its message."""
    message = done.stderr
    assert done.returncode not in (0, 70), message
    assert code is None or done.returncode == code, message
    assert "Traceback" not in message
    assert "internal error" not in message
    assert "\n\n" not in message
    for part in parts:
        assert part in message
    return message


def only(folder: Path, *names: str) -> None:
    """Check that a folder holds these files and no others."""
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)


@pytest.fixture
def dlc(models: Any) -> Path:
    path = models.folder / "net.dlc"
    xdlc.convert(models.save(models.cnn())).save(path)
    return path


# ------------------------------------------------------------------ models


def test_missing_model(tmp_path: Path) -> None:
    done = call("xconv-onnx-to-dlc", "-i", tmp_path / "none.onnx")
    refused(done, "none.onnx: the file cannot be read: No such file or directory", code=8)
    only(tmp_path)


def external(models: Any) -> Path:
    path = models.save(
        models.cnn(),
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location="model.data",
        size_threshold=0,
    )
    assert (models.folder / "model.data").stat().st_size
    return path


def test_external_data_missing(models: Any) -> None:
    path = external(models)
    (models.folder / "model.data").unlink()
    refused(
        call("xconv-onnx-to-dlc", "-i", path),
        "'model.data' does not exist",
        "put 'model.data' next to model.onnx",
    )
    only(models.folder, "model.onnx")


def test_unsupported_ops_are_listed_at_once(models: Any) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "fine"),
        helper.make_node("FooBar", ["a"], ["b"], "first", domain="com.example"),
        helper.make_node("BarFoo", ["b"], ["c"], "second", domain="com.example"),
        helper.make_node("StringNormalizer", ["c"], ["y"], "third"),
    ]
    model = models.make(nodes, {"x": [1, 4]}, {"y": [1, 4]})
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    message = refused(call("xconv-onnx-to-dlc", "-i", models.save(model)), code=4)
    for name, op in (("first", "FooBar"), ("second", "BarFoo"), ("third", "StringNormalizer")):
        assert name in message
        assert op in message
    only(models.folder, "model.onnx")


def test_open_dimension_is_bound_by_name(models: Any) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"], "relu")]
    path = models.save(models.make(nodes, {"x": ["batch", 4]}, {"y": ["batch", 4]}))
    assert call("xconv-onnx-to-dlc", "-i", path, "-d", "x", "2,4").returncode == 0
    refused(call("xconv-onnx-to-dlc", "-i", path, "-d", "z", "2,4"), "z")
    for words in (["-b", 2**32], ["-s", "batch", 2**70], ["-b", 0]):
        assert call("xconv-onnx-to-dlc", "-i", path, *words).returncode == 2


def test_unknown_flag_names_the_near_one(models: Any) -> None:
    done = call("xconv-onnx-to-dlc", "-i", models.save(models.cnn()), "--input_dims", "x", "1")
    assert done.returncode == 2
    assert "'--input_dims'" in done.stderr
    assert "--input-dim" in done.stderr


# ------------------------------------------------------------------ containers


@pytest.mark.parametrize("share", [0.0, 0.5, 0.95])
def test_truncated_container(dlc: Path, share: float) -> None:
    os.truncate(dlc, int(dlc.stat().st_size * share))
    refused(call("xdlc-info", dlc), "net.dlc", code=6)


def test_not_a_container(tmp_path: Path) -> None:
    (tmp_path / "a.dlc").write_text("not a DLC")
    refused(call("xdlc-info", tmp_path / "a.dlc"), "a.dlc", code=6)
    done = call("xdlc-info", tmp_path)
    assert done.returncode == 2
    assert "is a directory" in done.stderr


def test_unknown_soc(dlc: Path) -> None:
    done = call("xdlc-graph-prepare", "--input_dlc", dlc, "--htp_socs", "sm8650,sm8560")
    refused(done, "'sm8560'", "sm8650, sm8550", code=2)
    only(dlc.parent, "model.onnx", "net.dlc")


def test_layers_of_format_3_that_are_not_known_are_refused_in_one_sentence(tmp_path: Path) -> None:
    from xdlc.container.read3 import PACKAGE

    model = xdlc.Model()
    graph = Graph("net")
    data = graph.add_input(Tensor("x", (1, 4), FLOAT32))
    graph.append(Op("Neuron", [data], [Tensor("y", (1, 4), FLOAT32)], name="relu", package=PACKAGE))
    graph.add_output(graph.tensors["y"])
    model.add_graph(graph)
    path, listing = tmp_path / "old.dlc", tmp_path / "list.txt"
    model.save(path)
    listing.write_text("none.raw")
    for words in (
        ["xdlc-quant", "--input_dlc", path, "--input_list", listing],
        ["xdlc-net-run", "--container", path, "--input_list", listing],
        ["xdlc-graph-prepare", "--input_dlc", path, "--htp_socs", "sm8650"],
        ["xdlc-to-onnx", "--input_dlc", path],
    ):
        message = refused(
            call(*words), "old.dlc: layer 'relu' (Neuron): the layer has no attribute 'type'", code=4
        )
        assert len(message.splitlines()) == 2
    for verb in (
        lambda: xdlc.run(path, {}),
        lambda: xdlc.quantize(path, []),
        lambda: xdlc.prepare(path, ["x"]),
        lambda: xdlc.to_onnx(path, tmp_path / "m.onnx"),
    ):
        with pytest.raises(UnsupportedOp, match="no attribute"):
            verb()
    only(tmp_path, "old.dlc", "list.txt")


# ------------------------------------------------------------------ input lists


@pytest.mark.parametrize("tool", ["xdlc-quant", "xdlc-net-run"])
def test_wrong_input_list(dlc: Path, tool: str) -> None:
    folder = dlc.parent
    np.zeros((1, 3, 16, 16), "<f4").tofile(folder / "good.raw")
    np.zeros(5, "<f4").tofile(folder / "short.raw")
    lines = [str(folder / name) for name in ("good.raw", "short.raw", "missing.raw")]
    (folder / "list.txt").write_text("\n".join(lines))
    flag = "--container" if tool == "xdlc-net-run" else "--input_dlc"
    done = call(tool, flag, dlc, "--input_list", folder / "list.txt", cwd=folder)
    refused(done, "list.txt:2: ", "has 20 bytes", "3072", "list.txt:3: ", "missing.raw")
    only(folder, "model.onnx", "net.dlc", "good.raw", "short.raw", "list.txt")


def test_output_name_that_leads_out_of_the_folder(models: Any) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["../../y"], "relu")]
    path = models.save(models.make(nodes, {"x": [1, 4]}, {"../../y": [1, 4]}))
    folder = models.folder
    xdlc.convert(path).save(folder / "net.dlc")
    np.zeros(4, "<f4").tofile(folder / "x.raw")
    (folder / "list.txt").write_text(str(folder / "x.raw"))
    done = call(
        "xdlc-net-run", "--container", folder / "net.dlc", "--input_list", folder / "list.txt", cwd=folder
    )
    refused(done, "cannot be a file name")
    only(folder, "model.onnx", "net.dlc", "x.raw", "list.txt")


def run_words(models: Any, *outputs: str) -> tuple[Path, list[object]]:
    """Save a DLC with outputs of these names; return its folder and command line."""
    nodes = [helper.make_node("Relu", ["x"], [name], f"relu{n}") for n, name in enumerate(outputs)]
    path = models.save(models.make(nodes, {"x": [1, 4]}, {name: [1, 4] for name in outputs}))
    folder = models.folder
    xdlc.convert(path).save(folder / "net.dlc")
    np.ones(4, "<f4").tofile(folder / "x.raw")
    (folder / "list.txt").write_text(str(folder / "x.raw"))
    return folder, [
        *("--container", folder / "net.dlc", "--input_list", folder / "list.txt"),
        *("--output_dir", folder / "out"),
    ]


@pytest.mark.parametrize("names", [("a", "/a"), ("a", "a.raw/b"), ("b/c.raw/d", "b//c")])
def test_outputs_that_would_share_a_file(models: Any, names: tuple[str, ...]) -> None:
    folder, words = run_words(models, *names)
    refused(call("xdlc-net-run", *words), "would overwrite each other", code=2)
    assert not (folder / "out").exists()


@pytest.mark.parametrize("name", ["y" * 300, "a/" + "é" * 130, "..", "."])
def test_output_name_that_no_file_can_have(models: Any, name: str) -> None:
    folder, words = run_words(models, name)
    refused(call("xdlc-net-run", *words), "cannot be a file name", code=2)
    assert not (folder / "out").exists()


def test_output_folder_that_is_a_file(models: Any) -> None:
    folder, words = run_words(models, "y")
    (folder / "out").write_text("mine")
    refused(call("xdlc-net-run", *words), "out: cannot be written: File exists", code=8)
    assert (folder / "out").read_text() == "mine"


def test_results_are_whole_or_absent(models: Any) -> None:
    import resource

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))

    folder, words = run_words(models, "y")
    refused(
        call_process("xdlc-net-run", *words, preexec_fn=limit), "y.raw: the file cannot be written", code=8
    )
    assert not (folder / "out").exists()


# ------------------------------------------------------------------ writing


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["info --help", "info", "--help"])
def test_standard_output_on_a_full_disk(dlc: Path, command: str, unbuffered: str) -> None:
    words = [*command.split(), str(dlc)] if command == "info" else command.split()
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "xdlc", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )
    message = refused(done, "error[XD802]: standard output: No space left on device", code=8)
    assert len(message.splitlines()) == 1


def test_output_is_the_input(models: Any) -> None:
    path = models.save(models.cnn())
    content = path.read_bytes()
    (models.folder / "link").symlink_to(path)
    for target in (path, models.folder / ".." / models.folder.name / path.name, models.folder / "link"):
        done = call("xconv-onnx-to-dlc", "-i", path, "-o", target)
        refused(done, "the output would replace the input", code=2)
    assert path.read_bytes() == content


def test_output_is_a_device(models: Any) -> None:
    """Replacing /dev/null by a file, as root may, would break the machine."""
    os.mkfifo(models.folder / "pipe")
    for target in ("/dev/null", models.folder / "pipe"):
        done = call("xconv-onnx-to-dlc", "-i", models.save(models.cnn()), "-o", target)
        refused(done, "not a regular file", code=8)
    assert not Path("/dev/null").is_file()


def test_names_that_no_file_has(models: Any) -> None:
    path, long = models.save(models.cnn()), "a" * 300
    refused(call("xconv-onnx-to-dlc", "-i", path, "-o", long), "File name too long", code=8)
    refused(call("xconv-onnx-to-dlc", "-i", long), "File name too long", code=8)
    for words in (["-i", ""], ["-i", path, "-o", ""]):
        done = call("xconv-onnx-to-dlc", *words)
        assert done.returncode == 2
        assert "the path is empty" in done.stderr
    only(models.folder, "model.onnx")


def big_model(models: Any, megabytes: int) -> Path:
    """Save a model with weights of some megabytes, and return its path."""
    weight = np.ones((256, megabytes * 1024), np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "matmul")]
    shape = [1, weight.shape[1]]
    return models.save(models.make(nodes, {"x": [1, 256]}, {"y": shape}, {"w": weight}), "big.onnx")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "xdlc-test", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small tmpfs: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_disk_full(models: Any, small_disk: Path) -> None:
    model = big_model(models, 4)
    done = call("xconv-onnx-to-dlc", "-i", model, "-o", small_disk / "big.dlc")
    refused(done, "big.dlc: the file cannot be written: No space left on device", code=8)
    only(small_disk)


def test_file_size_limit(models: Any) -> None:
    """A limit of file sizes ends as a full disk does, where nothing can be mounted."""
    import resource

    model = big_model(models, 4)

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    done = call_process("xconv-onnx-to-dlc", "-i", model, preexec_fn=limit)
    refused(done, "big.dlc: the file cannot be written: File too large", code=8)
    only(models.folder, "big.onnx")


def test_output_folder_missing(models: Any) -> None:
    target = models.folder / "none" / "a.dlc"
    refused(
        call("xconv-onnx-to-dlc", "-i", models.save(models.cnn()), "-o", target), "does not exist", code=8
    )
    only(models.folder, "model.onnx")


def test_output_is_a_folder(models: Any) -> None:
    done = call("xconv-onnx-to-dlc", "-i", models.save(models.cnn()), "-o", models.folder)
    refused(done, "it is a folder", code=8)


def test_output_not_writable(models: Any, tmp_path: Path) -> None:
    """The output folder is not writable, or for root accepts no files."""
    model = models.save(models.cnn())
    folder = Path("/proc/self") if os.geteuid() == 0 else tmp_path / "locked"
    if os.geteuid():
        folder.mkdir(mode=0o555)
    refused(
        call("xconv-onnx-to-dlc", "-i", model, "-o", folder / "a.dlc"), "a.dlc: cannot be written", code=8
    )


def test_kill_while_writing_leaves_the_old_file(models: Any) -> None:
    model, target = big_model(models, 64), models.folder / "out" / "big.dlc"
    target.parent.mkdir()
    target.write_bytes(b"the old file")
    code = "from xdlc.cli.tools.onnx_to_dlc import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "-i", str(model), "-o", str(target)], stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while process.poll() is None and len(list(target.parent.iterdir())) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.0005)
    process.kill()
    if process.wait() != -signal.SIGKILL:
        pytest.fail("the tool was done before it could be killed: the model is too small for this machine")
    assert target.read_bytes() == b"the old file"
    done = call("xconv-onnx-to-dlc", "-i", model, "-o", target)
    assert done.returncode == 0, done.stderr
    assert target.read_bytes()[:2] == b"PK"


def test_bad_element_types_are_problems_of_the_model(models: Any) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"], "copy")]
    types = {"x": TensorProto.STRING, "y": TensorProto.STRING}
    refused(
        call("xconv-onnx-to-dlc", "-i", models.save(models.make(nodes, {"x": [1]}, {"y": [1]}, types=types)))
    )
    only(models.folder, "model.onnx")
