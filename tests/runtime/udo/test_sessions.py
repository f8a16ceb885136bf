"""User-defined operations in sessions: all kinds of kernels agree."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.udo.conftest import PYTHON
from tests.runtime.udo.udo_graphs import between_relus, custom_graph
from tests.support.compilers import COMPILER, needs_cc
from tests.support.control_flow_models import MULTIPLY, if_model, loop_model
from tests.support.custom_ops import custom, place
from xdlc.container.udo import add_definitions
from xdlc.errors import BackendError, ProblemList, UnsupportedOp
from xdlc.ir import Graph, Model, ScaleOffset, Tensor, b8, f32, make_op, static, string, u32
from xdlc.ir.dtype import FLOAT16, FLOAT32, INT32, UFIXED8
from xdlc.opdefs.model import Collection
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.udo import Kernels

RNG = np.random.default_rng(5)


@pytest.fixture(scope="module", params=["c", "python"])
def kernels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernels]:
    if request.param == "c":
        path = request.getfixturevalue("library")
    else:
        path = tmp_path_factory.mktemp("python") / "math_kernels.py"
        path.write_text(PYTHON)
    with Kernels(path) as made:
        yield made


def real(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@needs_cc
def test_reals_that_a_library_gets_rounded_are_told_once(
    library: Path, python_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    graph = Graph("graph")
    x = graph.add_input(Tensor("x", (2,), FLOAT32))
    for name in "ab":
        y = Tensor(f"y_{name}", (2,), FLOAT32)
        weight = static(f"w_{name}", np.float32([0.25, 1]))
        graph.append(make_op(graph, "Sum", [x, weight], [y], name=name, package="Math"))
        graph.add_output(y)
    model = Model()
    model.add_graph(graph)
    inputs = place("x"), place("w", [UFIXED8], is_static=True)
    definition = custom("Sum", inputs, [place("y")], package="Math").definition
    add_definitions(model, {"Math": Collection("Math", "d", "1.0", (definition,), ())})
    for path, first in ((library, 64 / 255), (python_file, 0.25)):
        with Kernels(path, model=model) as kernels:
            got = CpuSession(model, kernels=kernels).run({"x": np.zeros(2, np.float32)})
        np.testing.assert_allclose(got["y_b"], [first, 1], rtol=1e-6)
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{library}: Math::Sum gets 'w' rounded to ufixed8 with one scale")


@needs_cc
def test_an_op_between_native_ops(kernels: Kernels) -> None:
    session = CpuSession(
        between_relus("Scale", {"factor": f32(-2)}), kernels=kernels, outputs=["after", "before"]
    )
    for _ in range(3):
        x = real(2, 3)
        got = session.run({"x": x})
        np.testing.assert_array_equal(got["after"], np.maximum(x, 0) * np.float32(-2))
        np.testing.assert_array_equal(got["before"], np.maximum(x, 0))
        np.testing.assert_array_equal(got["y"], 0)


@needs_cc
def test_inputs_left_out_in_the_middle_and_any_number_of_them(kernels: Kernels) -> None:
    graph = custom_graph("Sum", {"mode": u32(1)}, inputs=5, omitted=[1, 3])
    x = {f"x{index}": real(2, 3) for index in (0, 2, 4)}
    got = CpuSession(graph, kernels=kernels).run(x)["y"]
    np.testing.assert_allclose(got, sum(x.values()) / np.float32(3), rtol=1e-6)


@needs_cc
def test_a_tensor_parameter(kernels: Kernels) -> None:
    graph = custom_graph("Scale", {"table": static("", np.float32([1, 7]))})
    x = real(2, 3)
    np.testing.assert_array_equal(CpuSession(graph, kernels=kernels).run({"x0": x})["y"], x * np.float32(7))


@needs_cc
def test_static_inputs_without_a_definition_are_reals(kernels: Kernels) -> None:
    graph = Graph("graph")
    x = graph.add_input(Tensor("x", (4,), FLOAT32))
    weight = static("w", np.uint8([0, 10, 20, 30]), UFIXED8, ScaleOffset(0.5, -10))
    y = Tensor("y", (4,), FLOAT32)
    graph.append(make_op(graph, "Sum", [x, weight], [y], package="Math"))
    graph.add_output(y)
    got = CpuSession(graph, kernels=kernels).run({"x": np.zeros(4, np.float32)})["y"]
    np.testing.assert_array_equal(got, np.float32([-5, 0, 5, 10]))


@needs_cc
def test_quantized_values_come_and_go_as_reals_and_are_rounded(kernels: Kernels) -> None:
    graph = custom_graph("Scale", {"factor": f32(0.3)}, dtype=UFIXED8, encoding=ScaleOffset(0.25, -128))
    session = CpuSession(graph, kernels=kernels)
    x = real(2, 3)
    rounded = np.clip(np.rint(x / np.float32(0.25)), -128, 127) * np.float32(0.25)
    expected = np.rint(rounded * np.float32(0.3) / np.float32(0.25)) * np.float32(0.25)
    np.testing.assert_array_equal(session.run({"x0": x})["y"], expected)
    stored = session.run({"x0": x}, native=True)["y"]
    assert stored.dtype == np.uint8
    np.testing.assert_array_equal(stored, expected / 0.25 + 128)
    plain = CpuSession(graph, kernels=kernels, quantized=False).run({"x0": x})["y"]
    np.testing.assert_array_equal(plain, x * np.float32(0.3))


@needs_cc
def test_halves_come_and_go_as_reals(kernels: Kernels) -> None:
    graph = custom_graph("Scale", {"factor": f32(3)}, dtype=FLOAT16)
    x = real(2, 3).astype(np.float16)
    got = CpuSession(graph, kernels=kernels).run({"x0": x})["y"]
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, (x.astype(np.float32) * 3).astype(np.float16))


@needs_cc
def test_extents_that_are_open_until_it_runs(kernels: Kernels) -> None:
    graph = custom_graph("Grow", {"factor": f32(1)}, open_axes=(0,), output=(4, 3))
    session = CpuSession(graph, kernels=kernels)
    for rows in (1, 5, 2, 2, 300):
        x = real(rows, 3)
        np.testing.assert_array_equal(session.run({"x0": x})["y"], np.concatenate([x, x]))


@needs_cc
def test_empty_tensors(kernels: Kernels) -> None:
    graph = custom_graph("Scale", {"factor": f32(2)}, shape=(0, 3))
    assert CpuSession(graph, kernels=kernels).run({"x0": np.zeros((0, 3), np.float32)})["y"].shape == (0, 3)


@needs_cc
def test_profile_tells_the_time_of_the_last_run(kernels: Kernels) -> None:
    (op,) = custom_graph("Scale", {"factor": f32(2)}).ops
    operation = kernels.operation(op)
    with pytest.raises(BackendError, match="did not run yet"):
        operation.profile()
    operation.run([real(2, 3)])
    assert 0 < operation.profile() < 10**10


@needs_cc
def test_the_life_cycle_releases_all_in_order(library: Path) -> None:
    count = custom_graph("Count", result=INT32, output=(3,), shape=(3,))
    with Kernels(library) as kernels:

        def counts() -> list[int]:
            (op,) = count.ops
            return kernels.operation(op).run([np.zeros(3, np.float32)])[0].tolist()

        assert counts() == [1, 1, 1]
        session = CpuSession(between_relus("Scale"), kernels=kernels)
        session.run({"x": real(2, 3)})
        assert counts() == [2, 2, 1]
        del session
        gc.collect()
        assert counts() == [1, 1, 1]
    # Leaving has terminated the library, which gives an error if something is left.


@needs_cc
def test_a_library_that_registers_and_implements(libraries: Any) -> None:
    with Kernels(libraries.single()) as kernels:
        x = real(2, 3)
        got = CpuSession(between_relus("Scale", {"factor": f32(4)}), kernels=kernels).run({"x": x})["y"]
    np.testing.assert_array_equal(got, np.maximum(x, 0) * 4)


def test_many_threads_and_sessions(python_file: Path, request: pytest.FixtureRequest) -> None:
    paths = [python_file] if COMPILER is None else [request.getfixturevalue("library"), python_file]
    shared = Kernels(paths[0])
    owners = [Kernels(path) for path in paths]
    sessions = [
        (factor, CpuSession(between_relus("Scale", {"factor": f32(factor)}), kernels=kernels, threads=1))
        for factor, kernels in enumerate([shared, shared, *owners], 1)
    ]
    wrong: list[Any] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(25):
                for factor, session in sessions:
                    x = rng.standard_normal((2, 3)).astype(np.float32)
                    got = session.run({"x": x})["y"]
                    if not np.array_equal(got, np.maximum(x, 0) * np.float32(factor)):
                        wrong.append((factor, x, got))
        except Exception as error:  # told by the assertion below
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for kernels in (shared, *owners):
        kernels.close()
    assert not wrong


def test_all_ops_without_a_kernel_are_listed(python_file: Path) -> None:
    graph = between_relus("Skale")
    extra = Tensor("extra", (2, 3), FLOAT32)
    graph.append(make_op(graph, "Other", [graph.tensors["x"]], [extra], package="Elsewhere", name="second"))
    graph.add_output(extra)
    with pytest.raises(ProblemList) as caught:
        CpuSession(graph)
    assert [problem.node for problem in caught.value.problems] == ["custom", "second"]
    for problem in caught.value.problems:
        assert isinstance(problem, UnsupportedOp)
        assert "udo_package_path" in str(problem.fix)
    with Kernels(python_file) as kernels, pytest.raises(ProblemList) as caught:
        CpuSession(graph, kernels=kernels)
    assert "there is no kernel for Math::Skale" in str(caught.value)
    assert "nearest: Math::Scale" in str(caught.value)


def test_refusals_of_all_ops_are_collected(tmp_path: Path) -> None:
    path = tmp_path / "shapes.py"
    path.write_text(
        "from xdlc.udo import kernel, shape_function\n"
        "@kernel('Math', 'A')\n@kernel('Math', 'B')\ndef f(inputs, params, outputs): return inputs[0]\n"
        "@shape_function('Math', 'A')\n@shape_function('Math', 'B')\ndef g(op): return (7, 7)\n"
    )
    graph = custom_graph("A")
    other = Tensor("z", (2, 3), FLOAT32)
    graph.append(make_op(graph, "B", [graph.tensors["y"]], [other], package="Math", name="second"))
    graph.add_output(other)
    with Kernels(path) as kernels, pytest.raises(ProblemList) as caught:
        CpuSession(graph, kernels=kernels)
    first, second = caught.value.problems
    assert "op 'custom' (Math::A)" in str(first.where)
    assert "op 'second' (Math::B)" in str(second.where)
    assert "output 0 has shape [7, 7], but the model states [2, 3]" in first.problem


def test_unused_files_are_told(python_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("from xdlc.udo import kernel\n@kernel('A', 'B')\ndef f(i, p, o): return i[0]\n")
    with Kernels([python_file, other]) as kernels:
        CpuSession(between_relus("Scale", {"factor": f32(1)}), kernels=kernels)
        assert kernels.unused() == [str(other)]


def customized(model: Model, graph: str, type: str, custom: str) -> Model:
    """Put an op of the package ``Math`` in the place of the native ones of a type."""
    held = model.graphs[graph]
    for op in list(held.ops):
        if op.type == type:
            held.replace_op(op, make_op(held, custom, op.inputs[:1] * 2, op.outputs, package="Math"))
    return model


def test_inside_a_loop(python_file: Path) -> None:
    model = loop_model()
    body = model.graphs["main_body"]
    (product,) = (op for op in body.ops if op.param("operation") == MULTIPLY)
    p = product.inputs[0]
    body.replace_op(product, make_op(body, "Sum", [p, p], product.outputs, package="Math"))
    x = np.float32([1, 2, 3])
    feeds = {"x": x, "n": np.int32([5]), "f": x}
    with Kernels(python_file) as kernels:
        got = CpuSession(model, kernels=kernels, loop_timeout=15).run(feeds)["y"]
    np.testing.assert_array_equal(got, x * 32)


def test_inside_a_branch(python_file: Path) -> None:
    model = customized(if_model(), "main_then", "Relu", "Sum")
    x = real(2, 3)
    with Kernels(python_file) as kernels:
        session = CpuSession(model, kernels=kernels)
        then, other = (session.run({"x": x, "c": np.array([c])})["y"] for c in (True, False))
    relu = np.maximum(x, 0)
    np.testing.assert_allclose(then, np.tanh(relu * 3), rtol=1e-6)
    np.testing.assert_allclose(other, np.zeros_like(x), atol=1e-7)


def test_the_time_out_of_a_loop_ends_a_kernel_inside(tmp_path: Path) -> None:
    path = tmp_path / "slow.py"
    path.write_text(
        "import time\nfrom xdlc.udo import kernel\n"
        "@kernel('Math', 'Sum')\ndef f(inputs, params, outputs): time.sleep(60)\n"
    )
    model = loop_model()
    body = model.graphs["main_body"]
    (product,) = (op for op in body.ops if op.param("operation") == MULTIPLY)
    body.replace_op(product, make_op(body, "Sum", product.inputs, product.outputs, package="Math"))
    x = np.float32([1, 2, 3])
    with Kernels(path) as kernels:
        session = CpuSession(model, kernels=kernels, loop_timeout=0.5)
        with pytest.raises(BackendError, match="the loop did not end after"):
            session.run({"x": x, "n": np.int32([5]), "f": x})


def test_string_parameters_reach_python_and_what_it_prints_is_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(
        "import numpy as np\nfrom xdlc.udo import kernel\n"
        "@kernel('Math', 'Text')\ndef f(inputs, params, outputs):\n"
        "    assert params['flag'] is True and params['count'] == 5, params\n"
        "    print('a\\x1bb\\n' + 'c' * 5000)\n"
        "    return np.full(outputs[0].shape, len(params['text']), np.float32)\n"
    )
    params = {"text": string("äö"), "flag": b8(True), "count": u32(5)}
    with Kernels(path) as kernels:
        got = CpuSession(custom_graph("Text", params), kernels=kernels).run({"x0": real(2, 3)})
    np.testing.assert_array_equal(got["y"], 2)
    where, first = caplog.messages[0].split(": printed: ")
    assert "(Math::Text)" in where
    assert where.endswith("kernels.py")
    assert first == "a?b"
    assert caplog.messages[-1].endswith("printed: and 909 bytes more")
