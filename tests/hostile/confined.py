"""Runs tools on hostile files, each in a watched and limited process.

A server imports the packages once and forks for each call; the memory that a child has from it counts as
its own, as if it had started from nothing.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 5
MEGABYTES = 500
MODULES = {
    "xconv-tflite-to-dlc": "tflite_to_dlc",
    "xconv-onnx-to-dlc": "onnx_to_dlc",
    "xconv-caffe-to-dlc": "caffe_to_dlc",
    "xconv-caffe2-to-dlc": "caffe2_to_dlc",
    "xconv-tensorflow-to-dlc": "tensorflow_to_dlc",
    "xdlc-info": "info",
    "xdlc-net-run": "net_run",
    "xdlc-to-onnx": "to_onnx",
}


@dataclass(frozen=True)
class End:
    """How a call has ended.

    Attributes:
        status: Exit code, or the negative number of the signal that ended it.
        output: Standard output.
        errors: Standard error.
        seconds: Processor time.
        megabytes: Peak of the resident memory.
    """

    status: int
    output: str
    errors: str
    seconds: float
    megabytes: float


class Server:
    """A process that runs the tools in children of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def call(self, tool: str, *words: object) -> End:
        """Run a tool and return how it has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([tool, *map(str, words)]) + "\n")
        self._process.stdin.flush()
        return End(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def harmless(end: End) -> End:
    """Check that a call has ended by itself and within the limits; return how."""
    assert 0 <= end.status < 70, end
    assert "Traceback" not in end.errors
    assert end.seconds < SECONDS, end
    assert end.megabytes < MEGABYTES, end
    return end


def convert_harmless(path: Path, target: Path, **options: Any) -> str:
    """Convert in this process within the limits; return the error, or nothing."""
    import xdlc

    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    message = ""
    try:
        xdlc.save(xdlc.convert(path, notify=lambda _: None, **options), target)
    except xdlc.XdlcError as error:
        message = str(error)
    assert time.process_time() - start < SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEGABYTES * 1000
    assert len(message) < 20_000
    return message


def serve() -> None:
    """Answer calls, a JSON list a line, until there are no more."""
    import importlib

    os.fsync = lambda _: None  # no test can see what is on the disk
    tools = {
        name: importlib.import_module(f"xdlc.cli.tools.{module}").main for name, module in MODULES.items()
    }
    _warm_up(tools)
    gc.collect()
    gc.freeze()  # a collection in a child would touch, and so copy, every page
    for line in sys.stdin:
        tool, *words = json.loads(line)
        print(json.dumps(_forked(tools[tool], tool, words)), flush=True)


def _warm_up(tools: Mapping[str, Any]) -> None:
    """Use each tool once, so that everything that it imports is there."""
    import numpy as np
    import onnx.reference
    import onnxruntime  # noqa: F401
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Add", ["one", "one"], ["two"]),
        helper.make_node("Mul", ["x", "two"], ["z"]),
        helper.make_node("NonZero", ["z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, None)],
        [numpy_helper.from_array(np.ones(1, np.float32), "one")],
    )
    with tempfile.TemporaryDirectory() as folder:
        source, dlc = os.path.join(folder, "model.onnx"), os.path.join(folder, "model.dlc")
        graph_def = os.path.join(folder, "model.pb")
        with open(graph_def, "wb") as file:
            file.write(_graph_def())
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        onnx.save(made, source)
        np.ones(4, np.float32).tofile(os.path.join(folder, "x.raw"))
        with open(os.path.join(folder, "list.txt"), "w") as listing:
            listing.write(os.path.join(folder, "x.raw"))
        for tool, *words in (
            ("xconv-onnx-to-dlc", "-i", source, "-o", dlc),
            ("xconv-tensorflow-to-dlc", "-i", graph_def, "-o", dlc),
            ("xconv-onnx-to-dlc", "-i", source, "-o", dlc),
            ("xdlc-info", dlc),
            ("xdlc-net-run", "--container", dlc, "--input_list", listing.name, "--output_dir", folder),
            ("xdlc-to-onnx", "--input_dlc", dlc, "--output_path", source),
        ):
            with contextlib.redirect_stdout(io.StringIO()):
                tools[tool](words, prog_name=tool, standalone_mode=False)


def _graph_def() -> bytes:
    """Return a TensorFlow graph of one operator."""
    from xdlc.converter.tensorflow.messages import message

    graph = message("GraphDef")
    graph.versions.producer = 100
    node = graph.node.add(name=b"x", op=b"Placeholder")
    node.attr.add(key=b"shape").value.shape.dim.add(size=4)
    node.attr.add(key=b"dtype").value.type = 1
    graph.node.add(name=b"y", op=b"Relu", input=[b"x"])
    return bytes(graph.SerializeToString())


def _forked(main: Any, name: str, words: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if not child:
            _become(main, name, words, output.fileno(), errors.fileno())
        _, status, usage = os.wait4(child, 0)
        for file in (output, errors):
            file.seek(0)
        return {
            "status": os.waitstatus_to_exitcode(status),
            "output": output.read(),
            "errors": errors.read(),
            "seconds": usage.ru_utime + usage.ru_stime,
            "megabytes": usage.ru_maxrss / 1000,
        }


def _become(main: Any, name: str, words: list[str], output: int, errors: int) -> None:
    """Turn a forked child into the tool; never returns."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (4 * SECONDS, 4 * SECONDS))
    resource.setrlimit(resource.RLIMIT_DATA, (4 * MEGABYTES << 20, 4 * MEGABYTES << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    code = 70
    try:
        main(words, prog_name=name)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
