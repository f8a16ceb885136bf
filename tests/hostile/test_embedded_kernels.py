"""Kernels that a DLC carries: nothing of them is loaded unasked, and nothing that is not of this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.udo.conftest import SAMPLE
from tests.runtime.udo.udo_graphs import custom_graph
from tests.support.compilers import build_library, needs_cc
from xdlc import api
from xdlc.container import udo
from xdlc.errors import BackendError, ContainerError, UnsupportedOp, XdlcError
from xdlc.ir import Model, raw_data
from xdlc.opdefs.source_match import Kernel
from xdlc.runtime.udo import Kernels
from xdlc.runtime.udo.sources import MACHINE

pytestmark = needs_cc
X = np.float32([[1, 2, 3], [4, 5, 6]])
BOMB = (
    "#include <stdlib.h>\n__attribute__((constructor)) static void go(void) { abort(); }\nint plain_kernel;\n"
)


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("kernel")
    return build_library(SAMPLE, folder / "kernel.so", "-DPLAIN_KERNEL").read_bytes()


@pytest.fixture
def make(binary: bytes) -> Callable[..., Model]:
    def build(ops: tuple[str, ...] = ("custom",), **changes: Any) -> Model:
        model = Model({"graph": custom_graph("Plain")})
        values = (2, 0.5, "", np.float32([0, 10]))
        kernel = Kernel("plain", "plain_kernel", "ifso", values, f"linux-{MACHINE}", "cc 1", binary)
        udo.add_kernel(model, "Math", "Plain", ops, replace(kernel, **changes))
        return model

    return build


def run(model: Model, **options: Any) -> Any:
    return api.run(model, {"x0": X}, **{"allow_embedded_kernels": True, **options})["y"]


def test_it_runs_with_its_arguments(make: Callable[..., Model], tmp_path: Path) -> None:
    expected = X * 2 + np.float32(0.5) + np.float32([[0, 10, 0], [10, 0, 10]])
    np.testing.assert_array_equal(run(make()), expected)
    make().save(tmp_path / "m.dlc")
    np.testing.assert_array_equal(run(api.load(tmp_path / "m.dlc")), expected)


def test_it_is_not_loaded_unasked(make: Callable[..., Model], tmp_path: Path) -> None:
    source = tmp_path / "bomb.c"
    source.write_text(BOMB)
    model = make(binary=build_library(source, tmp_path / "bomb.so").read_bytes())
    with pytest.raises(UnsupportedOp, match="there is no kernel for Math::Plain") as caught:
        run(model, allow_embedded_kernels=False)
    assert "allow_embedded_kernels=True if you trust the DLC" in str(caught.value.fix)
    with pytest.raises(BackendError, match="loading it ended with SIGABRT"):
        run(model)


def test_it_is_for_the_ops_that_it_names_only(make: Callable[..., Model]) -> None:
    with pytest.raises(UnsupportedOp, match="there is no kernel"):
        run(make(ops=("another",)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"machine": "linux-hexagon"},
            "on this machine, linux-.*: there is kernel 'plain' .* for 'linux-hex",
        ),
        ({"machine": ""}, "on this machine, linux-.*built by 'cc 1' for ''"),
        ({"entry": "missing"}, "does not export missing"),
        ({"binary": b"\x7fELF"}, "cannot be loaded"),
        ({"binary": b"MZ" * 100}, "cannot be loaded"),
        ({"values": (2, 0.5, "", 7)}, "has the argument 7 for the letter 'o'"),
        ({"values": ("2", 0.5, "", np.zeros(2, np.float32))}, "has the argument '2' for the letter 'i'"),
        ({"values": (2, 0.5, ""), "arguments": "ifs"}, "the kernel returned XDLC_UDO_ERROR_INVALID_ARGUMENT"),
        ({"values": (2, 0.5, "x", np.zeros(2, np.float32))}, "executing it ended with SIGSEGV"),
    ],
)
def test_what_is_wrong_with_it(make: Callable[..., Model], changes: dict[str, Any], said: str) -> None:
    with pytest.raises(XdlcError, match=said) as caught:
        run(make(**changes))
    if "machine" in changes:
        assert "convert the model again on a machine like this one" in str(caught.value.fix)
        with pytest.raises(UnsupportedOp, match=said):  # allowing it would not help
            run(make(**changes), allow_embedded_kernels=False)


def test_a_cut_off_binary(make: Callable[..., Model], binary: bytes) -> None:
    with pytest.raises(BackendError, match=r"cannot be loaded|SIGBUS"):
        run(make(binary=binary[:3000]))


@pytest.mark.parametrize("content", [b"", b"\xff", b"{}"])
def test_damaged_records(make: Callable[..., Model], content: bytes) -> None:
    model = make()
    (name,) = (record for record in model.records if record.startswith(udo.KERNELS))
    model.records[name] = raw_data(content or b"\0")
    with pytest.raises(ContainerError, match="record"):
        Kernels(model=model)


def test_two_kernels_of_one_op_differ(make: Callable[..., Model]) -> None:
    """Each is loaded under a name of its own: the system would take a second for the first."""
    model = make()
    graph = model.main
    y = graph.tensors["y"]
    from xdlc.ir import Tensor, make_op
    from xdlc.ir.dtype import FLOAT32

    z = Tensor("z", (2, 3), FLOAT32)
    graph.append(make_op(graph, "Plain", [y], [z], package="Math", name="second"))
    graph.add_output(z)
    (first,) = udo.kernels(model)
    udo.add_kernel(
        model, "Math", "Plain", ["second"], replace(first.kernel, values=(1, 1.0, "", np.float32([0, 0])))
    )
    got = api.run(model, {"x0": X}, allow_embedded_kernels=True)
    np.testing.assert_array_equal(got["z"], got["y"] + 1)


def test_of_kernels_for_several_machines_the_own_is_taken(make: Callable[..., Model]) -> None:
    model = make(machine="linux-other", binary=b"none of ours")
    (first,) = udo.kernels(model)
    (own,) = udo.kernels(make())
    udo.add_kernel(model, "Math", "Plain", first.ops, own.kernel)
    np.testing.assert_array_equal(run(model), run(make()))


def test_two_kernels_for_one_op_are_an_error(make: Callable[..., Model]) -> None:
    model = make()
    (first,) = udo.kernels(model)
    udo.add_kernel(
        model, "Math", "Plain", first.ops, replace(first.kernel, values=(7, *first.kernel.values[1:]))
    )
    with pytest.raises(BackendError, match="carries 2 kernels for op 'custom'"):
        run(model)
