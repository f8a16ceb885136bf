"""Runs of every tool that writes, with a fault at each point.

::

    python -m fuzz.faults.run                            # every tool, every point, every fault
    python -m fuzz.faults.run to-onnx,opt --every 7      # each 7th case of two tools

A point is a system call that changes the disk; ``inject.c`` counts them in the tool and its children.  After
each run every output is whole, as it was or new, those that belong together are so together, nothing else is
in its folder, the exit code is a documented one, and the tool runs again.  The tools run in forks of one
process that has imported them.
"""

from __future__ import annotations

import argparse
import errno
import itertools
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

FAULTS = {
    "ENOSPC": (1, errno.ENOSPC),  # from the point on
    "EIO": (2, errno.EIO),
    "EPERM": (2, errno.EPERM),
    "short": (3, 0),
    "kill": (4, 0),
}
SIZE = 32 + 8192 * 24
SECONDS = 120
Files = dict[str, bytes]
OLD = b"the old file\n" * 99


@dataclass(frozen=True)
class Case:
    """A tool with its words; ``@`` is the folder of outputs, ``%`` that of inputs.

    Attributes:
        module: Module of the tool.
        words: Its command line.
        together: Names of outputs that belong together; a folder's files do if it is named.
        makes: Whether the outputs do not exist before.
    """

    module: str
    words: str
    together: tuple[str, ...] = ()
    makes: bool = False


TOOLS = {
    "convert": Case("convert", "-i %/net.onnx -o @/net.dlc"),
    "dry-run": Case("convert", "-i %/net.onnx --dry_run --report @/report.json"),
    "quant": Case(
        "quantize", "-i %/net.dlc -l %/list.txt -o @/q.dlc --export_encodings @/e.json", ("q.dlc", "e.json")
    ),
    "quant-jobs": Case("quantize", "-i %/net.dlc -l %/list.txt -o @/q.dlc --jobs 2"),
    "quantize": Case("quantize", "-i %/net.dlc -l %/list.txt -o @/q.dlc --report @/r.html"),
    "graph-prepare": Case("graph_prepare", "--input_dlc %/q.dlc --output_dlc @/c.dlc --htp_socs sm8650"),
    "opt": Case("opt", "%/net.dlc -o @/o.dlc --pass drop_neutral"),
    "info": Case("info", "%/net.dlc --save @/ops.csv"),
    "to-onnx": Case("to_onnx", "-i %/net.dlc -o @/m.onnx"),
    "to-onnx-data": Case("to_onnx", "-i %/net.dlc -o @/m.onnx --external_data", ("m.onnx", "m.onnx.data")),
    "to-onnx-aimet": Case("to_onnx", "-i %/q.dlc -o @/m.onnx --encodings aimet", ("m.onnx", "m.encodings")),
    "net-run": Case("net_run", "--container %/net.dlc --input_list %/list.txt --output_dir @/out"),
    "udo-config": Case("udo_config", "convert %/udo.json -o @/udo.xml"),
    "udo-packages": Case("udo_package_generator", "-p %/udo.json -o @/packages", ("packages",), makes=True),
    "udo-packages-again": Case(
        "udo_package_generator", "-p %/udo.json -o @/packages --force-generation", ("packages",)
    ),
    "compat": Case("compat", "install @/bin --tools snpe-net-run,qnn-net-run"),
    "platform-check": Case("platform_check", "--runtime htp --soc sm8650"),
}
UDO = (
    '{"UdoPackage_0": {"Operators": [{"type": "Twice", "inputs": '
    '[{"name": "x", "data_type": "FLOAT_32"}], '
    '"outputs": [{"name": "y", "data_type": "FLOAT_32"}], "core_types": ["CPU"]}], '
    '"UDO_PACKAGE_NAME": "Two"}}'
)


@dataclass
class Result:
    """What the cases of a tool showed."""

    points: int = 0
    tried: int = 0
    reached: int = 0
    torn: int = 0
    apart: int = 0
    problems: Counter[str] = field(default_factory=Counter)


class Bench:
    """Folders, inputs, and the memory that is shared with the tools.

    Args:
        work: A folder of its own.
    """

    def __init__(self, work: Path) -> None:
        self.inputs, self.outputs, self.temporary = (work / name for name in ("in", "out", "tmp"))
        self.log = work / "log"
        shared = os.open(os.environ["XDLC_FAULTS"], os.O_RDWR)
        self.shared = mmap.mmap(shared, SIZE)
        self.inputs.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.temporary)
        self._make_inputs()

    def _make_inputs(self) -> None:
        import numpy as np
        import onnx
        from onnx import helper, numpy_helper

        shapes = {"x": [1, 64], "y": [1, 64]}
        given, made = (helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items())
        weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((64, 64)).astype("f4"), "w")
        nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
        graph = helper.make_graph(nodes, "g", [given], [made], [weight])
        imports = [helper.make_opsetid("", 18)]
        onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=9), self.inputs / "net.onnx")
        np.ones(64, "f4").tofile(self.inputs / "x.raw")
        (self.inputs / "list.txt").write_text(f"{self.inputs}/x.raw\n" * 2)
        (self.inputs / "udo.json").write_text(UDO)
        for module, words in (
            ("convert", "-i %/net.onnx -o %/net.dlc"),
            ("quantize", "-i %/net.dlc -l %/list.txt -o %/q.dlc"),
        ):
            if code := self.run(Case(module, words), -1, "EIO"):
                raise SystemExit(f"{module}: {code}: {self.log.read_text()}")

    def words(self, case: Case) -> list[str]:
        """Return the command line of a case."""
        return case.words.replace("@", str(self.outputs)).replace("%", str(self.inputs)).split()

    def warm(self, case: Case) -> None:
        """Run a tool in this process."""
        self.temporary.mkdir(exist_ok=True)
        with open(self.log, "w") as log, redirect_stdout(log), redirect_stderr(log), suppress(SystemExit):
            import_module(f"xdlc.cli.tools.{case.module}").main(self.words(case), prog_name=case.module)

    def run(self, case: Case, point: int, fault: str) -> int:
        """Run a tool with a fault at a point; return exit code or negative signal.

        A negative point means no fault.
        """
        action, error = FAULTS[fault]
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir()
        child = os.fork()
        if not child:
            self._tool(case, point, action, error)
        deadline = time.monotonic() + SECONDS
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > deadline:
                os.killpg(child, signal.SIGKILL)
                deadline += SECONDS
            time.sleep(0.002)
        self._armed(0)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(status)

    def _armed(self, *fields: int) -> None:
        self.shared[: 4 * len(fields)] = struct.pack(f"={len(fields)}i", *fields)

    def _tool(self, case: Case, point: int, action: int, error: int) -> None:
        code = 70
        try:
            os.setsid()
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            pipe = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log, stderr=log, env={})
            assert pipe.stdin is not None
            for stream in (1, 2):
                os.dup2(pipe.stdin.fileno(), stream)
            sys.stdout, sys.stderr = (open(stream, "w", closefd=False) for stream in (1, 2))  # noqa: SIM115
            main = import_module(f"xdlc.cli.tools.{case.module}").main
            self._armed(0, os.getpid(), point, action, error, 0, 0, 0)
            self._armed(1)
            try:
                main(self.words(case), prog_name=case.module)
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
            self._armed(0)
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def names(self) -> list[str]:
        """Return the calls of the last run."""
        count = min(struct.unpack_from("=i", self.shared, 20)[0], 8192)
        found = (self.shared[32 + 24 * place : 56 + 24 * place] for place in range(count))
        return [name.rstrip(b"\0").decode() for name in found]

    def files(self, folder: Path) -> Files:
        """Return the files of a folder, by their paths in it."""
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() or path.is_symlink()
        }

    def reset(self, files: Files, modes: dict[str, int]) -> None:
        """Make the folder of outputs what it was."""
        shutil.rmtree(self.outputs, ignore_errors=True)
        self.outputs.mkdir()
        for name, content in files.items():
            path = self.outputs / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(modes[name])


def check(bench: Bench, name: str, every: int) -> Result:
    """Run the cases of a tool."""
    case, result = TOOLS[name], Result()
    bench.reset({}, {})
    if case.module not in ("graph_prepare", "platform_check"):
        bench.warm(case)  # what a tool imports late is in the forks then
    bench.reset({}, {})
    if code := bench.run(case, -1, "EIO"):
        result.problems[f"without a fault: exit {code}: {bench.log.read_text()[-300:]}"] += 1
        return result
    new = bench.files(bench.outputs)
    modes = {path: (bench.outputs / path).stat().st_mode & 0o777 for path in new}
    keeps = "packages" in case.words  # refuses files that are not its own
    old = {} if case.makes else {path: content + b"\n" if keeps else OLD for path, content in new.items()}
    old = new if name == "compat" else old
    bench.reset(old, modes)
    bench.run(case, -1, "EIO")
    new, result.points = bench.files(bench.outputs), len(bench.names())
    every_case = itertools.product(range(result.points), FAULTS)
    for point, fault in itertools.islice(every_case, every - 1, None, every):
        bench.reset(old, modes)
        code, calls = bench.run(case, point, fault), bench.names()
        result.tried += 1
        result.reached += len(calls) > point
        problems = list(_problems(bench, case, code, fault, old, new, result))
        now = bench.files(bench.outputs)
        is_made = case.makes and all(now.get(path) == new[path] for path in new)  # and stays
        if (fault == "kill" and not is_made) or set(now) - set(new):
            code = bench.run(case, -1, "EIO")
            if code or any(bench.files(bench.outputs).get(path) != new[path] for path in new):
                problems.append(f"does not run again: {bench.log.read_text()[-200:]}")
        where = f"{fault} at {point} {calls[point] if point < len(calls) else '?'}"
        for problem in problems:
            print(f"  {name}: {where}: {problem}", flush=True)
        result.problems.update(problems)
    return result


def _problems(
    bench: Bench, case: Case, code: int, fault: str, old: Files, new: Files, result: Result
) -> Iterator[str]:
    now, text = bench.files(bench.outputs), bench.log.read_text(errors="replace")
    torn = [path for path in new if now.get(path) not in (old.get(path), new[path])]
    if torn:
        result.torn += 1
        yield f"torn: {torn}"
    members = [path for path in new if path.split("/")[0] in case.together]
    if len({now.get(path) == new[path] for path in members if old.get(path) != new[path]}) > 1:
        result.apart += 1
        yield "new and old files side by side"
    killed = code == -signal.SIGKILL
    if killed != (fault == "kill") and not (fault == "kill" and code == 0):
        yield f"exit {code}"
    elif not killed and (code not in range(10) or "Traceback" in text or "internal error" in text):
        yield f"exit {code}: {text[-200:]}"
    if code == 0 and any(now.get(path) != new[path] for path in new):
        yield "exit 0 without all outputs"
    left = [re.sub(r"[0-9a-f]{24}|-\w{8}\b", "*", path) for path in now if path not in new]
    if left and not killed and fault not in ("EIO", "EPERM"):  # which the removal itself may meet
        yield f"leaves {left}"


def main() -> int:
    """Run tools with faults; return 1 if a file was torn or anything else failed."""
    parser = argparse.ArgumentParser(description="Faults of the disk in every tool that writes.")
    parser.add_argument("tools", nargs="?", default=",".join(TOOLS))
    parser.add_argument("--every", type=int, default=1, help="run each n-th case only")
    options = parser.parse_args()
    folder = Path(__file__).parent
    if "XDLC_FAULTS" not in os.environ:
        with tempfile.TemporaryDirectory(prefix="xdlc-faults-") as work:
            library, shared = Path(work, "inject.so"), Path(work, "shared")
            subprocess.run(
                ["cc", "-shared", "-fPIC", "-O1", "-o", library, folder / "inject.c", "-ldl"], check=True
            )
            shared.write_bytes(bytes(SIZE))
            more = {"LD_PRELOAD": str(library), "XDLC_FAULTS": str(shared), "PYTHONDONTWRITEBYTECODE": "1"}
            command = [sys.executable, "-m", "fuzz.faults.run", *sys.argv[1:]]
            return subprocess.run(command, env=os.environ | more).returncode
    tools = (f"xdlc.cli.tools.{case.module}" for case in TOOLS.values())
    for module in ("onnx", "onnxruntime", "numpy.random", *tools):
        import_module(module)
    bench, failed = Bench(Path(os.environ["XDLC_FAULTS"]).parent), False
    for name in options.tools.split(","):
        result = check(bench, name, options.every)
        failed |= bool(result.problems)
        print(
            f"{name}: {result.points} points, {result.tried} cases tried, {result.reached} reached, "
            f"{result.torn} torn, {result.apart} apart, {sum(result.problems.values())} problem(s)",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
