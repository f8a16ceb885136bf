import io
import zipfile

import numpy as np
import pytest

from xdlc.errors import ProblemList, StorageError, UsageError
from xdlc.ir import Graph, Tensor
from xdlc.ir.dtype import FLOAT32, INT32
from xdlc.quant import quantize, read_samples
from xdlc.quant.samples import Samples

RELU = 4


def graph_of(**shapes):
    graph = Graph("net")
    for name, shape in shapes.items():
        graph.add_input(Tensor(name, shape, INT32 if name == "i" else FLOAT32))
    return graph


def same(found, wanted):
    found = list(found)
    assert [list(sample) for sample in found] == [list(sample) for sample in wanted]
    for one, two in zip(found, wanted, strict=True):
        for name, array in two.items():
            np.testing.assert_array_equal(one[name], array)
            assert one[name].shape == array.shape


def arrays(count, *shape):
    return np.arange(count * np.prod(shape), dtype=np.float32).reshape(count, *shape)


# ---------------------------------------------------------------------- read_samples


def test_mappings_pass_through():
    samples = [{"x": array} for array in arrays(3, 2)]
    read = read_samples(samples, graph_of(x=(2,)))
    assert len(read) == 3
    for _ in range(2):
        assert list(read) == samples


def test_arrays_go_to_the_only_input():
    read = read_samples(arrays(3, 1, 2), graph_of(x=(1, 2)))
    assert len(read) == 3
    same(read, [{"x": array} for array in arrays(3, 1, 2)])
    same(read_samples(iter(arrays(3, 1, 2)), graph_of(x=(1, 2))), [{"x": a} for a in arrays(3, 1, 2)])


def test_what_can_be_read_once_stays_so():
    read = read_samples(({"x": array} for array in arrays(3, 2)), graph_of(x=(2,)))
    assert iter(read) is read
    assert not hasattr(read, "__len__")
    with Samples(read) as kept:
        assert len(list(kept)) == len(list(kept)) == 3


class Endless:
    """An iterable of no known length."""

    def __iter__(self):
        return iter([{"x": np.zeros(2, np.float32)}])


def test_an_iterable_of_unknown_length():
    read = read_samples(Endless(), graph_of(x=(2,)))
    assert not hasattr(read, "__len__")
    assert len(list(read)) == len(list(read)) == 1


@pytest.mark.parametrize(("samples", "message"), [({"x": np.zeros(2)}, "is a mapping"), (5, "of type int")])
def test_what_samples_cannot_be(samples, message):
    with pytest.raises(UsageError, match=message):
        read_samples(samples, graph_of(x=(2,)))


def test_an_array_for_two_inputs():
    with pytest.raises(UsageError, match=r"sample 1 is of type ndarray(?s:.*)x, y"):
        list(read_samples([{}, np.zeros(2)], graph_of(x=(2,), y=(2,))))


def test_an_input_list(tmp_path):
    for index, array in enumerate(arrays(2, 2)):
        array.tofile(tmp_path / f"{index}.raw")
    lines = tmp_path / "list.txt"
    lines.write_text("".join(f"{tmp_path}/{index}.raw\n" for index in range(2)))
    read = read_samples(lines, graph_of(x=(2,)))
    assert len(read) == 2
    for _ in range(2):
        same(read, [{"x": array} for array in arrays(2, 2)])


# ---------------------------------------------------------------------- .npy and .npz


@pytest.mark.parametrize(
    ("shape", "saved", "count", "each"),
    [
        ((1, 4, 3), (5, 1, 4, 3), 5, (1, 4, 3)),
        ((1, 4, 3), (5, 4, 3), 5, (1, 4, 3)),
        ((2, 3), (6, 3), 3, (2, 3)),
        ((2, 3), (6, 2, 3), 6, (2, 3)),
        ((3,), (6, 3), 6, (3,)),
        ((3,), (6,), 2, (3,)),
        ((), (6,), 6, ()),
    ],
)
def test_an_array_of_samples(tmp_path, shape, saved, count, each):
    array = arrays(*saved)
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", x=array)
    np.savez_compressed(tmp_path / "b.npz", array)
    expected = [{"x": item} for item in array.reshape(count, *each)]
    for name in ("a.npy", "a.npz", "b.npz"):
        read = read_samples(tmp_path / name, graph_of(x=shape))
        assert len(read) == count
        for _ in range(2):
            same(read, expected)


def test_several_inputs(tmp_path):
    np.savez(tmp_path / "a.npz", i=np.arange(3), x=arrays(3, 1, 2))
    same(
        read_samples(str(tmp_path / "a.npz"), graph_of(x=(1, 2), i=())),
        [{"x": array, "i": np.array(i)} for i, array in enumerate(arrays(3, 1, 2))],
    )


def test_open_extents(tmp_path):
    graph = graph_of(x=(1, 4))
    graph.inputs[0].dynamic_axes = (0,)
    np.save(tmp_path / "a.npy", arrays(3, 2, 4))
    assert [sample["x"].shape for sample in read_samples(tmp_path / "a.npy", graph)] == [(2, 4)] * 3


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ({"x": np.zeros((3, 5), np.float32)}, r"(?s)x: has shape \[3, 5\].*has \[1, 2\].*\[samples,"),
        ({"x": np.float32(1)}, r"has shape \[\]"),
        ({"x": np.array([["a", "b"]])}, "not numbers"),
        ({"x": np.array([[object(), None]])}, "(?i)not numbers|object"),
        ({"x": np.zeros((2, 3, 1, 2)).T}, "column-major|shape"),
        ({"x": np.asfortranarray(np.zeros((3, 2)))}, "column-major(?s:.*)ascontiguousarray"),
        ({"x": np.zeros((0, 2), np.float32)}, "no sample"),
        ({"z": np.zeros((3, 2), np.float32), "x": np.zeros((3, 2), np.float32)}, "no input 'z'"),
        ({"z": np.zeros((3, 2), np.float32)}, "(?s)no input 'z'.*no array for input 'x'"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, saved, message):
    np.savez(tmp_path / "a.npz", **saved)
    with pytest.raises((UsageError, ProblemList), match=message):
        read_samples(tmp_path / "a.npz", graph_of(x=(1, 2)))


def test_unequal_numbers_of_samples(tmp_path):
    np.savez(tmp_path / "a.npz", x=arrays(3, 2), y=arrays(4, 2))
    with pytest.raises(UsageError, match="x has 3, y has 4"):
        read_samples(tmp_path / "a.npz", graph_of(x=(2,), y=(2,)))


def test_one_array_for_two_inputs(tmp_path):
    np.save(tmp_path / "a.npy", arrays(3, 2))
    with pytest.raises(UsageError, match=r"2 inputs(?s:.*)\.npz"):
        read_samples(tmp_path / "a.npy", graph_of(x=(2,), y=(2,)))


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "list.txt"])
@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00\xff\xff{", b"\x80\x04."])
def test_files_that_cannot_be_read(tmp_path, name, content):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises((StorageError, UsageError)):
        list(read_samples(tmp_path / name, graph_of(x=(2,))))


def test_a_header_that_promises_more_than_there_is(tmp_path):
    graph = graph_of(x=(1, 4))
    graph.inputs[0].dynamic_axes = (0,)
    file = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": (3, 1 << 40, 4)}
    np.lib.format.write_array_header_1_0(file, header)
    (tmp_path / "a.npy").write_bytes(file.getvalue())
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", file.getvalue())
    for name in ("a.npy", "a.npz"):
        with pytest.raises(StorageError, match="cannot be read as an array"):
            list(read_samples(tmp_path / name, graph))


def test_a_file_that_ends_too_early(tmp_path):
    np.save(tmp_path / "a.npy", arrays(3, 2))
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content[:-1])
    with pytest.raises(StorageError, match="ends too early"):
        list(read_samples(tmp_path / "a.npy", graph_of(x=(2,))))


def test_quantize_takes_a_path(net, tmp_path):
    n = net(1, 4)
    model = n.done(n.neuron(n.x, RELU, "y"))
    samples = n.samples(3)
    np.save(tmp_path / "a.npy", np.concatenate([sample["x"] for sample in samples]))
    encodings = [
        quantize(model, source).main.tensors["x"].encoding
        for source in (samples, tmp_path / "a.npy", [sample["x"] for sample in samples])
    ]
    assert encodings[0] == encodings[1] == encodings[2]
