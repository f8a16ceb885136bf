"""Programs that torch itself has exported and saved, against torch."""

from __future__ import annotations

import collections
import io
import zipfile

import numpy as np
import pytest

import xdlc

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore::UserWarning:torch", "ignore::FutureWarning"),  # torch's own
]


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch


def saved(torch, path, forward, arguments, tensors=(), dynamic=None):
    """Save the program of a function of a module with buffers, and return the program."""
    module = type("Net", (torch.nn.Module,), {"forward": forward})()
    for name, value in dict(tensors).items():
        module.register_buffer(name, value)
    with torch.no_grad():
        program = torch.export.export(module.eval(), arguments, dynamic_shapes=dynamic, strict=False)
    torch.export.save(program, path)
    return program


def test_containers_ties_and_constants(torch, tmp_path):
    table = torch.randn(4, 3)

    def forward(self, batch, scale):
        x = batch["x one"] * self.first + self.second.sum() + self.part
        return {"y": x, "rest": [x[0], None, scale], "same": x, "in": batch["x one"]}

    held = {"first": table, "second": table, "part": table[1:2].t()[:1, 0:1]}
    x = torch.randn(4, 3)
    program = saved(torch, tmp_path / "a.pt2", forward, ({"x one": x}, 3), held)
    model = xdlc.convert(tmp_path / "a.pt2")
    got = xdlc.run(model, {"batch_x_one": x.numpy()})
    assert list(got) == ["y", "rest_0", "rest_2", "same", "in"]
    wanted = program.module()({"x one": x}, 3)
    flat = [wanted["y"], wanted["rest"][0], 3, wanted["same"], wanted["in"]]
    for found, value in zip(got.values(), flat, strict=True):
        np.testing.assert_allclose(found, np.asarray(value), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("functional", [False, True])
def test_state_over_many_runs(torch, tmp_path, functional):
    def forward(self, x):
        self.count += 1
        self.past.copy_(torch.cat([self.past, x], 1)[:, -3:])
        return self.past.mean(1) * self.count

    buffers = {"count": torch.zeros((), dtype=torch.int64), "past": torch.zeros(2, 3)}
    program = saved(torch, tmp_path / "a.pt2", forward, (torch.randn(2, 2),), buffers)
    if functional:
        torch.export.save(program.run_decompositions({}), tmp_path / "a.pt2")
    model, reference = xdlc.convert(tmp_path / "a.pt2"), program.module()
    state = {name: np.zeros(model.main.tensors[name].shape, np.float32) for name in buffers}
    state["count"] = state["count"].astype(np.int64)
    for _ in range(20):
        x = torch.randn(2, 2)
        got = xdlc.run(model, {"x": x.numpy(), **state})
        np.testing.assert_allclose(got["output_0"], reference(x).numpy(), rtol=1e-5, atol=1e-6)
        state = {name: got[f"{name}_next"] for name in buffers}


def test_dynamic_dimensions(torch, tmp_path):
    def forward(self, x, y):
        return torch.cat([x.flatten(), y.flatten()]), x.view(x.shape[0] // 2, -1), x.shape[0] * 2

    dims = ({0: 2 * torch.export.Dim("n", min=2, max=9)}, {0: torch.export.Dim("m")})
    given = torch.randn(4, 6), torch.randn(8, 3)
    program = saved(torch, tmp_path / "a.pt2", forward, given, dynamic=dims).module()
    for rows, others in ((4, 8), (10, 2)):
        x, y = torch.randn(rows, 6), torch.randn(others, 3)
        model = xdlc.convert(tmp_path / "a.pt2", {"x": (rows, 6), "y": (others, 3)})
        got = xdlc.run(model, {"x": x.numpy(), "y": y.numpy()})
        for found, value in zip(got.values(), program(x, y), strict=True):
            np.testing.assert_array_equal(found, np.asarray(value))


@pytest.mark.parametrize("folder", ["", "net/"])
def test_layouts_of_older_torch(torch, tmp_path, folder):
    table = torch.randn(4, 3)

    def forward(self, x):
        return x @ self.last + self.table[:2] - self.same[2:]

    held = {"table": table, "same": table, "last": torch.randn(3, 3).t()}
    x = torch.randn(2, 3)
    program = saved(torch, tmp_path / "a.pt2", forward, (x,), held)
    with zipfile.ZipFile(tmp_path / "a.pt2") as file:
        name = next(name for name in file.namelist() if name.endswith("models/model.json"))
        document = file.read(name)
    tensors, nothing = io.BytesIO(), io.BytesIO()
    torch.save(collections.OrderedDict(program.state_dict), tensors)
    torch.save({}, nothing)
    records = {"serialized_exported_program.json": document, "version": b"8.2"}
    names = ["serialized_state_dict.pt", "serialized_constants.pt"]
    if folder:
        records = {f"{folder}archive_format": b"pt2", f"{folder}models/model.json": document}
        names = [f"{folder}data/{kind}/model.pt" for kind in ("weights", "constants")]
    records |= dict(zip(names, [tensors.getvalue(), nothing.getvalue()], strict=True))
    with zipfile.ZipFile(tmp_path / "b.pt2", "w") as file:
        for name, content in records.items():
            file.writestr(name, content)
    got = xdlc.run(xdlc.convert(tmp_path / "b.pt2"), {"x": x.numpy()})["output_0"]
    np.testing.assert_allclose(got, program.module()(x).numpy(), rtol=1e-5, atol=1e-5)
