"""Messages of the Python interface and the converter, of which each names the cause."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import xdlc
from tests.conftest import Models
from tests.htp_models import cnn
from xdlc.cli.tools.convert import main
from xdlc.errors import BackendError, StorageError, UsageError
from xdlc.ir import Tensor
from xdlc.ir.dtype import FLOAT32
from xdlc.runtime.htp.backend import _explain
from xdlc.targets import find_soc


def test_only_verbs_are_listed() -> None:
    assert dir(xdlc) == sorted(xdlc.__all__)


def test_a_session_shows_graph_runtime_inputs_and_outputs() -> None:
    with xdlc.Session(cnn(quantized=False)) as session:
        assert "'cnn' on cpu: x float32[1, 8, 8, 4] -> y float32[1, 5]" in repr(session)
    assert "closed" in repr(session)


@pytest.mark.parametrize(("name", "named"), [("bert-base", True), ("org/net", True), ("net.onnx", False)])
def test_a_name_of_transformers_is_no_file(name: str, named: bool) -> None:
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


def test_a_trade_name_of_a_soc_leads_to_the_name_of_the_part() -> None:
    with pytest.raises(UsageError) as caught:
        find_soc("snapdragon 8 gen 3")
    assert "sm8650" in str(caught.value.fix)
    assert find_soc("sm8650").id == 57


def test_a_missing_kernel_and_tensors_of_five_dimensions_are_named() -> None:
    log = "compiling graph cnn failed with QNN error 1002 (x); no properties registered for q::GenPad"
    graph = cnn(quantized=False).main
    error = BackendError(f'{log}; "{graph.ops[0].name}" generated: could not create op')
    _explain(error, graph)
    assert error.problem.startswith("HTP has no kernel for an op")
    assert f"{graph.ops[0].name!r}" in error.problem.partition(log)[0]
    assert "--partition" in str(error.fix)
    assert "5 dimensions" not in error.problem
    graph.add_input(Tensor("cache", (2, 1, 4, 8, 8), FLOAT32))
    error = BackendError(log)
    _explain(error, graph)
    assert "'cache' [2, 1, 4, 8, 8]" in error.problem
    assert str(error.fix).startswith("use tensors of at most 4 dimensions")
