"""State dicts of PyTorch: tensors are read, and no code of the pickle runs."""

import json
import pickle
import zipfile

import numpy as np
import pytest

from tests.converter.pytorch.pickles import pickled, tensor
from xdlc.errors import ModelError, UnsupportedOp, XdlcError
from xdlc.llm.checkpoint import open_checkpoint

A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(4, dtype=np.int64)


class Runs:
    """A pickle that runs code where it is loaded."""

    def __reduce__(self):
        return pytest.fail, ("code of the file was executed",)


def folder(path, content, arrays=(), name="pytorch_model.bin"):
    (path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with zipfile.ZipFile(path / name, "w") as archive:
        archive.writestr("archive/data.pkl", content)
        for index, array in enumerate(arrays):
            archive.writestr(f"archive/data/{index}", array.tobytes())
    return path


def state(*arrays):
    return {f"model.{index}": tensor(str(index), array) for index, array in enumerate(arrays)}


def test_tensors(tmp_path):
    weights = open_checkpoint(folder(tmp_path, pickled(state(A, B)), [A, B])).weights
    assert list(weights) == ["model.0", "model.1"]
    np.testing.assert_array_equal(weights["model.0"].floats().numpy(), A)
    assert weights["model.1"].floats().dtype == np.int64


def test_shards(tmp_path):
    folder(tmp_path, pickled(state(A)), [A], "one.bin")
    index = {"weight_map": {"model.0": "one.bin"}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    np.testing.assert_array_equal(open_checkpoint(tmp_path).weights["model.0"].floats().numpy(), A)


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(Runs(), 2),
        pickle.dumps({"model.0": Runs()}, 2),
        pickled([1, 2]),
        pickled({1: tensor("0", A)}),
        pickled({"model.0": 3}),
        pickled({"model.0": {}}),
        pickled({"model.0": tensor("7", A)}),
        pickled({"model.0": tensor("0", np.ones((4, 4), np.float32))}),
        b"",
        b"cos\nsystem\n(S'true'\ntR.",
    ],
)
def test_damaged(tmp_path, content):
    with pytest.raises(XdlcError):
        open_checkpoint(folder(tmp_path, content, [A]))


def test_files_of_old_torch_are_refused(tmp_path):
    (folder(tmp_path, b"") / "pytorch_model.bin").write_bytes(pickle.dumps({}, 2))
    with pytest.raises(UnsupportedOp, match="torch 1") as error:
        open_checkpoint(tmp_path)
    assert "save_pretrained" in error.value.fix


def test_an_archive_that_is_cut(tmp_path):
    path = folder(tmp_path, pickled(state(A)), [A]) / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ModelError):
        open_checkpoint(tmp_path)


@pytest.mark.frameworks
def test_what_torch_saves(tmp_path):
    import torch

    tensors = {
        "model.0": torch.arange(6).reshape(2, 3).to(torch.bfloat16),
        "model.1": torch.arange(6.0).reshape(2, 3).T,
        "model.2": torch.nn.Parameter(torch.ones(3).half()),
    }
    tensors["model.3"] = tensors["model.1"]
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    weights = open_checkpoint(tmp_path).weights
    for name, stored in tensors.items():
        np.testing.assert_array_equal(weights[name].floats().numpy(), stored.detach().float().numpy())
