"""Python files with kernels that raise, return nonsense, or misbehave."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.udo.udo_graphs import custom_graph
from xdlc.errors import BackendError, XdlcError
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.udo import Kernels, worker_client

X = np.float32([[1, 2, 3], [4, 5, 6]])
HEAD = """\
import numpy as np
from xdlc.udo import kernel, shape_function
@kernel('Math', 'Op')
def f(inputs, params, outputs):
"""


def run(path: Path, text: str, *, body: bool = True, timeout: float = 20) -> np.ndarray:
    path.write_text(HEAD + "".join(f"    {line}\n" for line in text.splitlines()) if body else text)
    with Kernels(path, timeout=timeout) as kernels:
        return CpuSession(custom_graph("Op"), kernels=kernels).run({"x0": X})["y"]


WRONG = [
    ("return 1 / 0", "raised ZeroDivisionError: division by zero", 3),
    ("x = 3\nreturn inputs[9]", "raised IndexError: list index out of range", 4),
    ("return np.zeros(3).reshape(7)", "raised ValueError: cannot reshape", 3),
    ("raise SystemExit('bye')", "raised SystemExit: bye", 3),
    ("raise KeyboardInterrupt", "raised KeyboardInterrupt", 3),
    ("def g(): return g()\nreturn g()", "raised RecursionError", 3),
    ("inputs[0][0] = 1", "raised ValueError: assignment destination is read-only", 3),
    ("class E(Exception):\n  def __str__(self): raise ValueError\nraise E", "raised", 5),
    ("import nowhere", "raised ModuleNotFoundError: No module named 'nowhere'", 3),
    ("return None", "returned an object of type NoneType for output 0", None),
    ("return 'text'", "returned an object of type str", None),
    ("return [inputs[0], inputs[0]]", "returned 2 results, but the op has 1 outputs", None),
    ("return []", "returned 0 results", None),
    ("return inputs[0].astype(np.float64)", "returned output 0 as float64 instead of float32", None),
    ("return inputs[0].astype(object)", "returned output 0 as object instead of float32", None),
    ("return inputs[0][:1]", r"returned output 0 of shape \[1, 3\] instead of \[2, 3\]", None),
]


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernels]:
    """Return a file with a kernel ``Op<n>`` for each case, at line ``10 * n + 1``."""
    path = tmp_path_factory.mktemp("wrong") / "k.py"
    lines = ["import numpy as np", "from xdlc.udo import kernel"]
    for number, (text, _, _) in enumerate(WRONG, 1):
        lines += [""] * (10 * number - len(lines))
        lines += [f"@kernel('Math', 'Op{number}')", "def f(inputs, params, outputs):"]
        lines += [f"    {line}" for line in text.splitlines()] + [f"f{number} = f"]
    path.write_text("\n".join(lines))
    with Kernels(path, timeout=20) as kernels:
        yield kernels


@pytest.mark.parametrize("number", range(1, len(WRONG) + 1), ids=[said for _, said, _ in WRONG])
def test_what_a_kernel_does_wrong(wrong: Kernels, number: int) -> None:
    _, said, line = WRONG[number - 1]
    graph = custom_graph(f"Op{number}")
    (op,) = graph.ops
    with pytest.raises(BackendError, match=said) as caught:
        CpuSession(graph, kernels=wrong).run({"x0": X})
    where = str(caught.value.where)
    path = wrong.origin(op)
    assert where.startswith(f"graph 'graph': op 'custom' (Math::Op{number}): ")
    assert where.endswith(f"{path}:{10 * number + line}" if line else path)
    assert f"Math::Op{number}" in caught.value.problem


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\nos._exit(0)", "executing it ended with status 0\n  fix: let the kernel return"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "ended with SIGKILL"),
        (
            "print('so far')\nimport sys; sys.stdout.flush()\nimport os; os.abort()",
            "SIGABRT; it printed 'so far'",
        ),
        ("while True: pass", "did not end within 1 s"),
        ("import time\ntime.sleep(60)", "did not end within 1 s"),
    ],
)
def test_a_kernel_that_takes_its_process_along(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BackendError, match=said) as caught:
        run(tmp_path / "k.py", text, timeout=1 if "within" in said else 20)
    assert str(tmp_path / "k.py") in str(caught.value.where)


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        ("def f(:\n", "SyntaxError", 1),
        ("x = 1\n1 / 0\n", "loading the file raised ZeroDivisionError: division by zero", 2),
        ("import sys\nsys.exit(3)\n", "loading the file raised SystemExit: 3", 2),
        ("x = 1\n", "marks no function", None),
        ("", "marks no function", None),
        ("from xdlc.udo import kernel\n@kernel('Math')\ndef f(): pass\n", "TypeError", 2),
        ("from xdlc.udo import kernel\n@kernel\ndef f(): pass\n", "TypeError", 2),
        ("from xdlc.udo import kernel\n@kernel('Math', '')\ndef f(): pass\n", "kernel needs names", 2),
        (
            "from xdlc.udo import kernel\n@kernel('A', 'B')\ndef f(): 0\n@kernel('A', 'B')\ndef g(): 0\n",
            "has two functions for the kernel of A::B: f and g",
            None,
        ),
        ("a = '\\ud800'\nx = b'\\xff'.decode()\n", "UnicodeDecodeError", 2),
    ],
)
def test_files_that_cannot_be_loaded(tmp_path: Path, text: str, said: str, line: int | None) -> None:
    path = tmp_path / "k.py"
    with pytest.raises(BackendError, match=said) as caught:
        run(path, text, body=False)
    assert f"{path}:{line}" in str(caught.value.where) if line and "TypeError" not in said else True
    assert "runtime/udo" in str(caught.value.where) or str(path) in str(caught.value.where)


def test_a_file_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_client, "LOADING", 1.5)
    with pytest.raises(BackendError, match=r"loading it did not end within 1\.5 s") as caught:
        run(tmp_path / "k.py", "while True: pass\n", body=False, timeout=1)
    assert caught.value.where == str(tmp_path / "k.py")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_bytes(b"\xff\xfe\x00garbage\x00")
    with Kernels(path) as kernels, pytest.raises(XdlcError, match="loading the file raised"):
        kernels.knows(next(iter(custom_graph("Op").ops)))


def test_what_lies_beside_a_file_can_be_imported_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "unnamed.py").write_text("raise RuntimeError('nobody named it')\n")
    monkeypatch.chdir(elsewhere)
    paths = []
    for factor, name in enumerate(("one", "other"), 2):
        folder = tmp_path / name
        (folder / "package").mkdir(parents=True)
        (folder / "helper.py").write_text(f"FACTOR = {factor}\n")
        (folder / "package/late.py").write_text("from helper import FACTOR\n")
        (folder / "numpy.py").write_text("raise RuntimeError('it hides numpy')\n")
        paths.append(folder / "kernels.py")
        paths[-1].write_text(
            "import sys\nimport helper\n" + HEAD.replace("Op", name) + "    import package.late\n"
            "    assert package.late.FACTOR == helper.FACTOR\n"
            "    try:\n        import unnamed\n    except ImportError: pass\n"
            "    return inputs[0] * np.float32(helper.FACTOR)\n"
        )
    with Kernels(paths) as kernels:
        for factor, name in enumerate(("one", "other"), 2):  # each its own helper
            got = CpuSession(custom_graph(name), kernels=kernels).run({"x0": X})["y"]
            np.testing.assert_array_equal(got, X * factor)
    found = sorted(path.name for path in paths[0].parent.rglob("*"))
    assert found == ["helper.py", "kernels.py", "late.py", "numpy.py", "package"]


SHAPES = [
    ("(4, 5)", [TensorSpec((4, 5), FLOAT32)]),
    ("[(4, None), (1,)]", [TensorSpec((4, None), FLOAT32), TensorSpec((1,), FLOAT32)]),
    ("TensorSpec((2, np.int64(3)), op.inputs[0].dtype)", [TensorSpec((2, 3), FLOAT32)]),
    ("None", None),
    ("()", [TensorSpec((), FLOAT32)]),
    ("1 / 0", "raised ZeroDivisionError"),
    ("'text'", "returned output 0 as 'text'"),
    ("(1.5,)", r"returned output 0 as \(1\.5,\)"),
    ("7", "returned output 0 as 7"),
    ("np.int64(7)", "returned output 0 as 7"),
    ("np.array([2, 3])", [TensorSpec((2, 3), FLOAT32)]),
    ("[np.array([2]), (1,)]", [TensorSpec((2,), FLOAT32), TensorSpec((1,), FLOAT32)]),
    ("(2 - 3, 3)", r"returned output 0 as \(-1, 3\)"),
    ("[(2**32 - 1,)]", r"returned output 0 as \(4294967295,\)"),
    ("[1] * 17", r"returned output 0 as \[1, 1,"),
    ("[(1,)] * 5000", "returned over 4096 outputs"),
    ("TensorSpec('ab', op.inputs[0].dtype)", "returned output 0 as"),
    ("TensorSpec((1,), 'float32')", "returned output 0 as"),
]


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernels]:
    """A file with a shape function ``Op<n>`` for each case."""
    path = tmp_path_factory.mktemp("shapes") / "s.py"
    lines = ["import numpy as np", "from xdlc.udo import TensorSpec, shape_function"]
    for number, (given, _) in enumerate(SHAPES):
        lines += [f"@shape_function('Math', 'Op{number}')", f"def f{number}(op): return {given}"]
    path.write_text("\n".join(lines))
    with Kernels(path) as kernels:
        yield kernels


@pytest.mark.parametrize("number", range(len(SHAPES)), ids=[given for given, _ in SHAPES])
def test_what_shape_functions_give(shapes: Kernels, number: int) -> None:
    expected = SHAPES[number][1]
    view = OpView("Math", f"Op{number}", "op", (TensorSpec((2, 3), FLOAT32),), (None,))
    if not isinstance(expected, str):
        assert shapes.infer(view) == expected
        return
    with pytest.raises(BackendError, match=f"the shape function of Math::Op{number} {expected}") as caught:
        shapes.infer(view)
    assert re.search(rf"^op 'op' \(Math::Op{number}\): .*s\.py", str(caught.value.where))


def test_what_has_no_shape_function_is_not_known(shapes: Kernels) -> None:
    assert shapes.infer(OpView("Math", "Other", "op", (), ())) is None


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ("(4000000000, 4000000000)", "bytes of shared memory, but this machine has"),
        ("(5, 4)", r"infers that output 0 has shape \[5, 4\], but the model states \[\?, 3\]"),
        ("(None, 3)", r"returned shape \[2, 4\] for output 0, but the model states \[\?, 3\]"),
    ],
)
def test_shapes_that_are_told_while_it_runs(tmp_path: Path, shape: str, said: str) -> None:
    path = tmp_path / "k.py"
    given = shape if "None" in shape else f"{shape} if op.inputs[0].shape[0] is not None else (None, None)"
    path.write_text(
        f"{HEAD}    return np.zeros((2, 4), np.float32)\n"
        f"@shape_function('Math', 'Op')\ndef g(op): return {given}\n"
    )
    columns = (0, 1) if "4000" in shape else (0,)
    graph = custom_graph("Op", open_axes=columns)
    with Kernels(path) as kernels, pytest.raises(XdlcError, match=said) as caught:
        CpuSession(graph, kernels=kernels).run({"x0": X})
    assert f"op 'custom' (Math::Op): {path}" in str(caught.value.where)


def test_a_scalar_stands_for_one_element(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_text(f"{HEAD}    return inputs[0].sum()\n")
    with Kernels(path) as kernels:
        assert CpuSession(custom_graph("Op", output=(1,)), kernels=kernels).run({"x0": X})["y"] == [21]


def test_an_array_has_the_shape_that_nobody_tells(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_text(f"{HEAD}    return np.zeros((9, 3), np.float32)\n")
    with Kernels(path) as kernels:
        got = CpuSession(custom_graph("Op", open_axes=(0,)), kernels=kernels).run({"x0": X})["y"]
    assert got.shape == (9, 3)
