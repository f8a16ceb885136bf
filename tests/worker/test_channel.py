"""Messages between session and child, also those that are none."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from xdlc.worker import channel


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(5)
        other.settimeout(5)
        yield one, other


def test_messages_and_files_arrive(pair: tuple[socket.socket, socket.socket]) -> None:
    reader, writer = os.pipe()
    channel.send(pair[0], {"a": [1, None, "ä"]}, [writer])
    message, files = channel.receive(pair[1])
    assert message == {"a": [1, None, "ä"]}
    os.write(files[0], b"x")
    assert os.read(reader, 1) == b"x"
    for file in (reader, writer, *files):
        os.close(file)


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack("<I", channel.LONGEST + 1),
        struct.pack("<I", 3) + b"[1]",
        struct.pack("<I", 3) + b"{{{",
        struct.pack("<I", 2) + b"\xff\xff",
        struct.pack("<I", 2) + b"{}{",
    ],
)
def test_what_is_no_message(pair: tuple[socket.socket, socket.socket], sent: bytes) -> None:
    pair[0].sendall(sent)
    with pytest.raises(ValueError):  # noqa: PT011 - of json or of our own
        channel.receive(pair[1])


@pytest.mark.parametrize("sent", [b"", b"\x05", struct.pack("<I", 5) + b"{"])
def test_a_line_that_is_closed(pair: tuple[socket.socket, socket.socket], sent: bytes) -> None:
    pair[0].sendall(sent)
    pair[0].close()
    with pytest.raises(channel.ClosedError):
        channel.receive(pair[1])
    with pytest.raises(channel.ClosedError):
        channel.send(pair[1], {"a": "b" * 100000})


def test_a_message_that_trickles_in_is_late(pair: tuple[socket.socket, socket.socket]) -> None:
    over = threading.Event()

    def trickle() -> None:
        pair[0].sendall(struct.pack("<I", 1 << 20))
        while not over.wait(0.02):
            pair[0].sendall(b" ")

    writer = threading.Thread(target=trickle)
    writer.start()
    start = time.monotonic()
    try:
        with pytest.raises(TimeoutError):
            channel.receive(pair[1], start + 0.2)
        assert time.monotonic() < start + 5
    finally:
        over.set()
        writer.join()
