"""Errors of the Python interface and the converter name the cause."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import xdlc
from tests.conftest import Models
from tests.support.htp_models import cnn
from xdlc.cli.tools.convert import main
from xdlc.errors import BackendError, ModelError, StorageError, UsageError
from xdlc.ir import Tensor
from xdlc.ir.dtype import FLOAT32
from xdlc.runtime.htp.backend import _explain


def test_only_verbs_are_listed() -> None:
    assert dir(xdlc) == sorted(xdlc.__all__)


def test_a_session_shows_graph_runtime_inputs_and_outputs() -> None:
    with xdlc.Session(cnn(quantized=False)) as session:
        assert "'cnn' on cpu: x float32[1, 8, 8, 4] -> y float32[1, 5]" in repr(session)
    assert "closed" in repr(session)


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("bert-base", True),
        ("org/net", True),
        ("Qwen/Qwen2.5-0.5B", True),
        ("net.onnx", False),
        ("models/net.onnx", False),
        ("../net.onnx", False),
    ],
)
def test_a_name_of_transformers_is_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, named: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    with pytest.raises(StorageError) as caught:
        xdlc.convert(name)
    assert ("convert the module" in str(caught.value.fix)) is named


def test_a_dlc_is_named_as_one_before_the_output(models: Models, tmp_path: Path) -> None:
    path = tmp_path / "net.dlc"
    xdlc.convert(models.save(models.cnn())).save(path)
    result = CliRunner().invoke(main, ["-i", str(path)])
    assert result.exit_code != 0
    assert "replace the input" not in result.stderr
    assert "DLC" in result.stderr


def test_a_missing_kernel_is_named() -> None:
    log = "compiling graph cnn failed with QNN error 1002 (x); no properties registered for q::GenPad"
    graph = cnn(quantized=False).main
    error = BackendError(f'{log}; "{graph.ops[0].name}" generated: could not create op')
    _explain(error, graph, False)
    assert error.problem.startswith("HTP has no kernel for")
    assert f"{graph.ops[0].name!r}" in error.problem.partition(log)[0]
    assert "--partition" in str(error.fix)


@pytest.mark.parametrize(
    ("log", "are_suspects"),
    [
        ("could not create op: q::linearclip; failed to finalize graph (id: 1) with err 1002", True),
        ("op requires 0x900000 bytes of TCM, more than there is", False),
        ("no properties registered for q::GenPad", False),
    ],
)
def test_tensors_of_many_dimensions_are_suspects_where_the_log_states_no_cause(
    log: str, are_suspects: bool
) -> None:
    problem = f"compiling graph cnn failed with QNN error 1002 (QNN_COMMON_ERROR_MEM_ALLOC); {log}"
    graph = cnn(quantized=False).main
    plain, error = BackendError(problem), BackendError(problem)
    _explain(plain, graph, False)
    graph.add_input(Tensor("cache", (2, 1, 4, 8, 8), FLOAT32))
    graph.add_input(Tensor("relative", (2, 1, 4, 2, 2, 2), FLOAT32))
    _explain(error, graph, False)
    assert ("'cache' [2, 1, 4, 8, 8]" in error.problem) is are_suspects
    assert (error.fix == plain.fix) is not are_suspects
    assert str(error.fix).startswith("use tensors of at most 4 dimensions") is are_suspects


def pyramid(models: Models, shape: list[int | str], sizes: list[int] | None) -> Path:
    """Return a network that adds a resized quarter of its input to the half."""
    nodes = [
        onnx.helper.make_node("MaxPool", ["x"], ["half"], kernel_shape=[2, 2], strides=[2, 2]),
        onnx.helper.make_node("MaxPool", ["half"], ["quarter"], kernel_shape=[2, 2], strides=[2, 2]),
        onnx.helper.make_node(
            "Resize", ["quarter", "", "" if sizes else "by", "to" if sizes else ""], ["up"]
        ),
        onnx.helper.make_node("Add", ["half", "up"], ["y"], "add"),
    ]
    values = {"to": np.array(sizes)} if sizes else {"by": np.array([1, 1, 2, 2], np.float32)}
    return models.save(models.make(nodes, {"x": shape}, {"y": None}, values))


def test_a_shape_that_no_fixed_decoder_fits_is_the_first_cause(models: Models) -> None:
    path = pyramid(models, ["n", 3, 16, 16], [1, 3, 8, 8])
    with pytest.raises(UsageError) as caught:
        xdlc.convert(path, input_dims={"x": (1, 3, 24, 24)})
    problem, fix = caught.value.problem, str(caught.value.fix)
    assert problem.startswith("input_dims states 'x' as [1, 3, 24, 24], but the model states [n, 3, 16, 16]")
    assert "report" not in fix
    shape = re.search(r"'x' the shape ([\d,]+) with input_dims", fix)
    assert shape is not None
    xdlc.convert(path, input_dims={"x": tuple(map(int, shape[1].split(",")))})


def test_sizes_of_open_dimensions_that_do_not_fit_are_the_first_cause(models: Models) -> None:
    path = pyramid(models, [1, 3, "h", "w"], None)
    with pytest.raises(ModelError) as caught:
        xdlc.convert(path, input_dims={"x": (1, 3, 18, 18)})
    assert caught.value.problem.startswith(
        "input_dims states 'x' as [1, 3, 18, 18], but the model states [1, 3, h, w]"
    )
    fix = str(caught.value.fix)
    assert "report" not in fix
    factor = re.search(r"multiples of (\d+)", fix)
    assert factor is not None
    xdlc.convert(path, input_dims={"x": (1, 3, int(factor[1]), int(factor[1]))})


def test_a_misfit_without_given_shapes_is_no_fault_of_shapes(models: Models) -> None:
    with pytest.raises(ModelError) as caught:
        xdlc.convert(pyramid(models, [1, 3, 24, 24], [1, 3, 8, 8]))
    assert "input_dims" not in str(caught.value)
    assert "onnx.checker" in str(caught.value.fix)
