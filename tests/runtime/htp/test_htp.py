from __future__ import annotations

import struct
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tests.support import services
from tests.support.control_flow_models import loop_model
from tests.support.htp_models import cnn, cnn_reference, needs_htp, refused, validate
from tests.support.running import run_cache, run_htp
from tests.support.single_ops import op_graph
from xdlc.errors import BackendError, ConstraintError, ProblemList, StorageError, UsageError
from xdlc.ir import Graph, Model, Tensor, i32, make_op, static, u32
from xdlc.ir import dtype as dt
from xdlc.runtime import htp
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.htp import CompileOptions, backend, library, process
from xdlc.runtime.htp.options import device_option

X = np.random.default_rng(3).uniform(-1, 1, (1, 8, 8, 4)).astype("float32")


@needs_htp
@pytest.mark.parametrize("quantized", [False, True])
def test_emulation_gives_the_numbers_of_numpy_and_of_the_cpu(quantized: bool) -> None:
    model = cnn(quantized=quantized)
    given = run_htp(model, {"x": X})["y"]
    assert given.dtype == np.float32
    assert np.abs(given - cnn_reference(cnn(quantized=False), X)).max() < (3 * 4 / 255 if quantized else 5e-3)
    on_cpu = CpuSession(model.main).run({"x": X})["y"]
    assert np.abs(given - on_cpu).max() <= (1.01 * 4 / 255 if quantized else 5e-3)


@needs_htp
def test_v68_computes_floats_in_single_precision() -> None:
    given = run_htp(cnn(quantized=False), {"x": X}, soc="sm8350")["y"]
    assert np.abs(given - cnn_reference(cnn(quantized=False), X)).max() < 1e-5


@needs_htp
def test_stored_values_go_in_and_out() -> None:
    model = cnn(quantized=True)
    stored = np.clip(np.rint(X / (2 / 255)) + 128, 0, 255).astype("uint8")
    raw = run_htp(model, {"x": stored}, native=True)["y"]
    assert raw.dtype == np.uint8
    real = run_htp(model.main, {"x": X})["y"]
    encoding = model.main.outputs[0].encoding
    assert encoding is not None
    assert np.allclose((raw.astype("float32") + encoding.offset) * np.float32(encoding.scale), real)


@needs_htp
def test_options_reach_the_compiler_and_bytes_repeat() -> None:
    options = htp.CompileOptions(2, 3, 4, True)
    first, second = (htp.compile_for(cnn(quantized=True), "sm8550", options) for _ in range(2))
    assert np.array_equal(first.data.numpy(), second.data.numpy())
    assert first.entry == second.entry
    facts = first.entry["graphs"][0]["graphBlobInfo"]
    assert {key: facts[key] for key in ("vtcmSize", "optimizationLevel", "numHvxThreads", "htpDlbc")} == {
        "vtcmSize": 2,
        "optimizationLevel": 3,
        "numHvxThreads": 4,
        "htpDlbc": 1,
    }


@needs_htp
def test_every_refused_op_is_named_with_its_reason() -> None:
    with pytest.raises(ProblemList) as caught:
        validate(refused())
    softmax, tile = caught.value.problems
    assert isinstance(softmax, ConstraintError)
    assert softmax.where == "model: sm8650: graph 'refused': op 'softmax' (Softmax)"
    assert "parameter 'axis' is 1, but Softmax of HTP accepts only 3" in softmax.problem
    assert "op 'tile' (Tile)" in str(tile)
    assert "has rank 6" in tile.problem


@needs_htp
def test_host_op_is_refused_by_its_package() -> None:
    x = Tensor("x", (1, 4), dt.FLOAT32)
    y = Tensor("y", (1, 4), dt.FLOAT32)
    graph = op_graph("Erf", [x], [y], package="xdlc")
    with pytest.raises(ConstraintError, match="HTP has no op package 'xdlc'"):
        validate(Model({"g": graph}))


@needs_htp
def test_int64_input_into_a_cast_is_taken() -> None:
    x = Tensor("x", (2, 3), dt.INT64)
    y = Tensor("y", (2, 3), dt.INT32)
    graph = op_graph("Cast", [x], [y])
    values = np.arange(6).reshape(2, 3)
    assert np.array_equal(run_htp(Model({"g": graph}), {"x": values})["y"], values)


def integers(table: list[int]) -> Model:
    """Return y = table[x] + x and z = 2 w, all in 64 bits."""
    graph = Graph("g")
    x, w = graph.add_input(Tensor("x", (3,), dt.INT64)), graph.add_input(Tensor("w", (3,), dt.UINT64))
    found, y, z = Tensor("found", (3,), dt.INT64), Tensor("y", (3,), dt.INT64), Tensor("z", (3,), dt.UINT64)
    held = static("table", np.array(table, "int64"))
    graph.append(make_op(graph, "Gather", [held, x], [found], {"axis": i32(0)}, name="pick"))
    graph.append(make_op(graph, "ElementWiseBinary", [found, x], [y], {"operation": u32(0)}, name="plus"))
    graph.append(make_op(graph, "Reshape", [w], [z], name="copy"))
    graph.add_output(y)
    graph.add_output(z)
    return Model({"g": graph})


@needs_htp
def test_wide_integers_are_computed_in_32_bits_and_given_back_wide() -> None:
    feeds = {"x": np.array([2, 0, 1]), "w": np.array([1, 2, 2**32 - 1], "uint64")}
    model = integers([5, -7, 2**31 - 3])
    found = run_htp(model, feeds)
    wanted = CpuSession(model.main).run(feeds)
    assert {name: array.dtype for name, array in found.items()} == {"y": "int64", "z": "uint64"}
    np.testing.assert_array_equal(found["z"], wanted["z"])
    np.testing.assert_array_equal(found["y"], wanted["y"])
    assert model.main.inputs[0].dtype is dt.INT64


@needs_htp
def test_known_values_beyond_32_bits_are_refused_with_op_and_value() -> None:
    with pytest.raises(ConstraintError) as caught:
        htp.compile_for(integers([0, 1, -(2**31) - 1]), "sm8650", htp.CompileOptions())
    assert caught.value.where == "model: sm8650: graph 'g': op 'pick' (Gather)"
    assert "input 0 ('table') holds -2147483649" in caught.value.problem
    feeds = {"x": np.array([2, 0, 2**31]), "w": np.zeros(3, "uint64")}
    with pytest.raises(UsageError, match="array for 'x': the array has values that need more than 32 bits"):
        run_htp(integers([0, 1, 2]), feeds)


@needs_htp
@pytest.mark.parametrize(
    ("feeds", "said"),
    [
        ({"X": X}, "no array for input 'x'; the graph has no input 'X'"),
        ({"x": X[0]}, r"needs shape \[1, 8, 8, 4\], but has \[8, 8, 4\]"),
    ],
)
def test_wrong_feeds_are_named(feeds: dict[str, np.ndarray], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        run_htp(cnn(quantized=False), feeds)


@needs_htp
def test_feed_of_another_integer_type_is_refused() -> None:
    with pytest.raises(UsageError, match="or stored uint8"):
        run_htp(cnn(quantized=True), {"x": X.astype("int8")})


@needs_htp
def test_damaged_cache_is_an_error() -> None:
    with pytest.raises(BackendError, match="cannot read the cache"):
        run_cache(b"no cache" * 100, {"x": X})


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"gone\.dlc"):
        validate(tmp_path / "gone.dlc")


def test_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.platform, "system", lambda: "Linux")
    monkeypatch.setattr(library.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    with pytest.raises(BackendError) as caught:
        validate(cnn(quantized=False))
    assert "onnxruntime-qnn, which is not installed" in caught.value.problem
    assert caught.value.fix == "pip install onnxruntime-qnn==2.7.0"


def test_other_machine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.platform, "machine", lambda: "aarch64")
    with pytest.raises(BackendError, match=r"Linux x86_64, but this is \w+ aarch64"):
        library.library_folder()


def test_unknown_library_version_is_refused() -> None:
    with pytest.raises(
        BackendError, match=r"QNN core API 2\.41\.0, but xdlc supports only 2\.36 .*2\.40 \(SDK 2\.51\)"
    ):
        library.known_release("core", (2, 41, 0))
    assert library.known_release("core", (2, 40, 7)) is library.RELEASES[-1]


def test_releases_have_versions_of_their_own() -> None:
    for field in ("sdk", "core", "system", "package"):
        assert len({getattr(release, field) for release in library.RELEASES}) == len(library.RELEASES)
    for release in library.RELEASES:
        assert library.known_release("core", (*release.core, 0)) is release
        assert library.known_release("system", (*release.system, 3)) is release


@pytest.mark.parametrize("place", ["", "lib/x86_64-linux-clang", "onnxruntime_qnn"])
def test_named_folder_goes_before_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    monkeypatch.setattr(library.platform, "system", lambda: "Linux")
    monkeypatch.setattr(library.platform, "machine", lambda: "x86_64")
    monkeypatch.setenv(library.VARIABLE, str(tmp_path))
    with pytest.raises(BackendError) as caught:
        library.library_folder()
    assert caught.value.where == str(tmp_path)
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    for name in ("libQnnHtp.so", "libQnnSystem.so"):
        (tmp_path / place / name).touch()
    assert library.library_folder() == tmp_path / place


def test_sdk_states_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "lib/x86_64-linux-clang"
    folder.mkdir(parents=True)
    (tmp_path / "sdk.yaml").write_text("name: sdk\nversion: 2.47.0.260601\n")
    monkeypatch.setattr(library, "library_folder", lambda: folder)
    assert library.installed_sdk() == (2, 47, 0)
    assert "2.47.0" in (library.unswept() or "")


@pytest.mark.parametrize("offset", sorted({release.device_offset for release in library.RELEASES}))
def test_device_option_follows_the_release(offset: int) -> None:
    for arch, words in ((None, (57,)), (75, (0, 75))):
        stored = bytes(device_option(57, arch, offset))
        assert struct.unpack_from(f"<{len(words)}I", stored, offset) == words


def test_old_release_shares_no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        release = library.RELEASES[0]

    monkeypatch.setattr(backend, "load_htp", Old)
    with pytest.raises(BackendError) as caught:
        backend.Htp(57, options=CompileOptions(share_weights=True))
    assert "2.47" in caught.value.problem
    assert "share_weights" in (caught.value.fix or "")


def _child(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str) -> None:
    lines = textwrap.indent(textwrap.dedent(body), "    ")
    head = "import json, os, signal, time\ndef commands(): return {'compile': run, 'validate': run}\n"
    services.htp(monkeypatch, folder, f"{head}def run(request, files):\n{lines}")
    monkeypatch.setattr(process, "library_folder", lambda: folder)


def test_crash_names_the_signal_and_the_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    body = """
    os.write(files[0], b'compiling graph cnn')
    os.kill(os.getpid(), signal.SIGSEGV)
    """
    _child(monkeypatch, tmp_path, body)
    with pytest.raises(BackendError) as caught:
        htp.compile_for(cnn(quantized=False), "sm8650", htp.CompileOptions())
    assert str(caught.value).startswith(
        "model: sm8650: the vendor's library ended with SIGSEGV while compiling graph cnn"
    )


def test_validator_crash_condemns_its_op_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    body = """
    if not request['skip']:
        os.pwrite(files[0], json.dumps(['validate', 'g', 'bad', 'Conv2d']).encode(), 0)
        os.abort()
    assert request['skip'] == [['g', 'bad']]
    found = [{'graph': 'g', 'op': 'worse', 'type': 'Add', 'problem': 'odd', 'fix': 'drop it'}]
    return {'unsupported': found}
    """
    _child(monkeypatch, tmp_path, body)
    with pytest.raises(ProblemList) as caught:
        validate(cnn(quantized=False))
    assert [problem.where for problem in caught.value.problems] == [
        "model: sm8650: graph 'g': op 'bad' (Conv2d)",
        "model: sm8650: graph 'g': op 'worse' (Add)",
    ]


@needs_htp
@pytest.mark.vendor
@pytest.mark.parametrize("quantized", [False, True])
def test_binary_equals_what_the_vendors_reader_compiles(
    quantized: bool, tmp_path: Path, vendor_check: process.Any
) -> None:
    cnn(quantized=quantized).save(tmp_path / "m.dlc")
    answer = vendor_check("compile", tmp_path / "m.dlc", "--soc", "sm8650", "--out", tmp_path / "c.bin")
    assert answer["ok"], answer["reason"]
    compiled = htp.compile_for(tmp_path / "m.dlc", "sm8650", htp.CompileOptions())
    assert compiled.data.numpy().tobytes() == (tmp_path / "c.bin").read_bytes()


@needs_htp
def test_a_loop_is_refused_with_the_ops_that_keep_it_off() -> None:
    model = loop_model()
    body = model.graphs["main_body"]
    odd = Tensor("u", (3,), dt.FLOAT32)
    body.append(make_op(body, "Unique", [body.inputs[0]], [odd], name="odd", package="xdlc"))
    feeds = {"x": np.ones(3, "float32"), "n": np.ones(1, "int32"), "f": np.ones(3, "float32")}
    for ask in (
        lambda: run_htp(model, feeds),
        lambda: htp.compile_for(model, "sm8650", htp.CompileOptions()),
    ):
        with pytest.raises(ProblemList) as caught:
            ask()
        problems = {problem.node: problem for problem in caught.value.problems}
        assert set(problems) == {"power", "odd"}
        assert problems["power"].problem == (
            "runs on the host only: HTP has no op that runs other graphs; "
            "HTP also does not support these ops inside: body: 'odd' (Unique)"
        )
        assert problems["power"].where.endswith(": graph 'main': op 'power' (While)")


@pytest.mark.slow
@needs_htp
def test_outputs_that_no_input_reaches_are_computed_and_make_no_cache() -> None:
    graph = Graph("fixed")
    graph.add_input(Tensor("x", (2,), dt.FLOAT32))
    known = static("known", np.array([1, 2, 3], "float32"))
    graph.append(make_op(graph, "Reshape", [known], [Tensor("y", (3,), dt.FLOAT32)], name="copy"))
    graph.add_output(graph.tensors["y"])
    assert run_htp(graph, {"x": np.ones(2, "float32")})["y"].tolist() == [1, 2, 3]
    with pytest.raises(ConstraintError, match="no op reads an input"):
        htp.compile_for(graph, "sm8650", htp.CompileOptions())
