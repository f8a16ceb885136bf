"""Hostile Caffe nets and weights: refused or converted, with bounded resources."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.converter.caffe import nets
from tests.converter.caffe.nets import blob, caffemodel, data, layer
from tests.hostile.confined import Server, convert_harmless, harmless
from tests.support.protobuf import field, varint

MILLION = 1_000_000
D, R = data(1, 3, 8, 8), layer("ReLU")
CONVOLUTION = D + layer("Convolution", "convolution_param { num_output: 2 kernel_size: 3 }")
WEIGHTS = caffemodel({"y": [np.ones((2, 3, 3, 3), np.float32), np.ones(2, np.float32)]})


def repeated(count: int, one: Callable[[int], str], head: str = D + R) -> str:
    return head + "".join(map(one, range(count)))


def stored(dims: list[int], payload: bytes) -> bytes:
    """Return a model whose layer ``y`` has a blob with these sizes and this field."""
    held = field(7, field(1, b"".join(map(varint, dims)))) + payload
    return field(100, field(1, "y") + field(7, held))


HUGE: dict[str, Callable[[], str]] = {
    "messages without an end": lambda: "a{" * MILLION,
    "string of 70 MB": lambda: D + 'name: "' + "x" * 70 * MILLION + '"',
    "strings that join": lambda: D + "name: " + '"a"' * 5 * MILLION,
    "name of 20 MB": lambda: "x" * 20 * MILLION,
    "empty lines": lambda: "\n" * 5 * MILLION,
    "text after blanks": lambda: " " * 20 * MILLION + "\1",
    "long paths": lambda: R[:-3] + ("x" * 250 + "{") * 60 + "f: 1 " * 99 + "}" * 61,
    "layers in place": lambda: repeated(9_000, lambda _: layer("ReLU", bottom="data", top="data")),
    "clamps in place": lambda: repeated(
        2_000, lambda i: layer("ReLU", bottom="data", top="data", name=str(i))
    ),
    "layers without bottoms": lambda: repeated(2_000, lambda i: layer("ReLU", bottom=f"q{i}", top=f"t{i}")),
    "layers without a mapping": lambda: repeated(2_000, lambda i: layer(f"T{i}", top=f"t{i}")),
    "layers without weights": lambda: repeated(
        2_000, lambda i: layer("Embed", "embed_param { num_output: 1 input_dim: 1 }", top=f"layer{i}")
    ),
    "many tops": lambda: D + layer("Split", top=" ".join(f"t{i}" for i in range(2_000))),
    "many bottoms": lambda: D + layer("ReLU", bottom=" ".join(f"b{i}" for i in range(40_000))),
    "unread parameters": lambda: D + layer("ReLU", "p {" + "".join(f"f{i}: 1 " for i in range(50_000)) + "}"),
    "widths that double": lambda: repeated(40, lambda _: layer("Concat", bottom="y y"), D + R),
}
"""Nets that want much time or memory."""

BROKEN: dict[str, str] = {
    "nothing": "",
    "zeros": "\0" * 100,
    "a list in a list": "a:[[",
    "a string without an end": 'a: "x\n',
    "size of 200 bits": D.replace("8", str(1 << 200)) + R,
    "size of 0": D.replace("8", "0") + R,
    "size that is real": D.replace("8", "1e9") + R,
    "sizes of 2**62 elements": D.replace("8", str((1 << 31) - 1)) + R,
    "100 dimensions": data(*[1] * 100) + R,
    "name of 1 MB": D + layer("ReLU", name="x" * MILLION),
    "top of 1 MB": D + layer("ReLU", top="x" * MILLION),
    "type of 1 MB": D + layer("x" * MILLION),
    "Python layer of 1 MB": D + layer("Python", f'python_param {{ module: "{"x" * MILLION}" layer: "l" }}'),
    "top without a name": D + 'layer { type: "ReLU" bottom: "data" top: "" }',
    "names that are no UTF-8": D + layer("ReLU", top=r"a\377", name=r"\377\355\240\200"),
    "names of paths and marks": D + layer("ReLU", top="../../x", name=r"\000\n\033[2J"),
    "names of Python": D + layer("ReLU", top="__proto__", name="__class__"),
    "a layer that is a number": "layer: 1",
    "a type that is a message": D + "layer { type {} }",
    "input that is a number": "input: 3 " + "input_dim: 1 " * 4 + layer("ReLU"),
    "padding without a bottom": 'layers { layer { type: "padding" } top: "p" } '
    'layers { layer { type: "pool" } bottom: "p" top: "y" }',
}

FILES: dict[str, bytes] = {
    "nothing": b"",
    "zeros": bytes(999),
    "ones": b"\xff" * 999,
    "a group": b"\x0b\x0c",
    "size of 2**63": b"\xa2\x06" + varint(1 << 63),
    "integer without an end": b"\xa2\x06" + b"\xff" * 20,
    "fields without an end": b"\x08\x01" * (MILLION + 50_000),
    "blob of 2**62 elements": stored([1 << 62], field(5, bytes(8))),
    "blob of size -2": stored([(1 << 64) - 2], field(5, bytes(8))),
    "blob of 100 dimensions": stored([1] * 100, field(5, bytes(4))),
    "blob of too few bytes": stored([2, 3, 3, 3], field(5, bytes(212))),
    "blob of too many bytes": stored([2, 3, 3, 3], field(5, bytes(220))),
    "blob of half a number": stored([2, 3, 3, 3], field(5, bytes(215))),
    "blob of integers": stored([2], field(5, 7)),
    "blob of doubles in the place of floats": stored([1], b"\x29" + bytes(8)),
    "blob in parts": stored([70_000], field(5, bytes(4)) * 70_000),
    "blob without data": stored([2], b""),
    "70,000 blobs": field(100, field(1, "y") + field(7, blob(np.ones(1))) * 70_000),
    "name of 1 MB": field(100, field(1, "x" * MILLION) + field(7, blob(np.ones(2)))),
    "name that is a number": field(100, field(1, 7) + field(7, blob(np.ones(2)))),
    "layer that is a number": field(100, 7),
    **{f"first {size} bytes": WEIGHTS[:size] for size in range(3, len(WEIGHTS), 23)},
}


@pytest.mark.parametrize("name", list(HUGE))
def test_a_net_that_wants_much_does_no_harm(server: Server, tmp_path: Path, name: str) -> None:
    net, _ = nets.write(tmp_path, HUGE[name]())
    end = server.call("xconv-caffe-to-dlc", "-i", net, "-o", tmp_path / "a.dlc")
    assert len(harmless(end).errors) < 200_000
    assert end.status == 0 or "error[" in end.errors


def convert(folder: Path, text: str, weights: bytes | None = None) -> str:
    net, files = nets.write(folder, text, weights)
    message = convert_harmless(net, folder / "net.dlc", **files)
    assert len(message) < 4000
    return message


@pytest.mark.parametrize("name", list(BROKEN))
def test_a_broken_net_does_no_harm(tmp_path: Path, name: str) -> None:
    assert convert(tmp_path, BROKEN[name]) or name.startswith("names ")


@pytest.mark.parametrize("name", list(FILES))
def test_a_broken_file_of_weights_is_refused(tmp_path: Path, name: str) -> None:
    assert convert(tmp_path, CONVOLUTION, FILES[name])


def test_large_weights_stay_in_their_file(server: Server, tmp_path: Path) -> None:
    text = data(1, 256, 8, 8) + layer("Pooling", "pooling_param { kernel_size: 1 }", top="p")
    text += layer("InnerProduct", "inner_product_param { num_output: 2048 bias_term: false }", bottom="p")
    net, _ = nets.write(tmp_path, text)
    nbytes = 2048 * 256 * 8 * 8 * 4
    held = field(7, field(1, varint(2048) + varint(256 * 8 * 8))) + b"\x2a" + varint(nbytes)
    head = field(1, "y") + b"\x3a" + varint(len(held) + nbytes) + held
    with (tmp_path / "net.caffemodel").open("wb") as file:
        file.write(b"\xa2\x06" + varint(len(head) + nbytes) + head)
        file.truncate(file.tell() + nbytes)
    target = tmp_path / "net.dlc"
    end = server.call("xconv-caffe-to-dlc", "-i", net, "-b", tmp_path / "net.caffemodel", "-o", target)
    assert end.status == 0, end
    assert target.stat().st_size > nbytes
    assert end.megabytes < nbytes / 1e6, end
