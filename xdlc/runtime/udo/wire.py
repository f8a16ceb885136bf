"""Messages between a session and its child process: length, JSON, and open files."""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST = 1 << 26
"""Bytes of a message."""
_MOST_FILES = 4
_HEAD = struct.Struct("<I")
_PART = 1 << 14


class ClosedError(Exception):
    """The other side has closed the line."""


def send(
    line: socket.socket, message: Mapping[str, Any], files: Sequence[int] = (), deadline: float | None = None
) -> None:
    """Send a message.

    Args:
        line: Where it goes.
        message: What JSON can hold.
        files: Open files that go with it.
        deadline: When the whole message has to be gone, as ``time.monotonic`` counts; None for whenever.

    Raises:
        ClosedError: If nobody takes it.
        TimeoutError: If it is not gone in time.
    """
    body = json.dumps(message).encode()
    rest = memoryview(_HEAD.pack(len(body)) + body)
    flags = 0 if deadline is None else socket.MSG_DONTWAIT
    try:
        while rest:
            try:
                gone = socket.send_fds(line, [rest], list(files), flags)
            except BlockingIOError:
                wait(line, select.POLLOUT, _left(deadline))
            else:
                rest, files = rest[gone:], ()
    except (BrokenPipeError, ConnectionResetError) as error:
        raise ClosedError from error


def receive(line: socket.socket, deadline: float | None = None) -> tuple[dict[str, Any], list[int]]:
    """Return a message and the files that came with it, which the caller has to close.

    Args:
        line: Where it comes from; the other side sends nothing more before it is answered.
        deadline: When the whole message has to be there, as ``time.monotonic`` counts; None for whenever.

    Raises:
        ClosedError: If the other side has closed the line.
        ValueError: If it sends something else than one message.
        TimeoutError: If the message is not there in time.
    """
    files = list[int]()
    try:
        message = json.loads(_body(line, deadline, files))
        if not isinstance(message, dict):
            raise ValueError("a message that is no object")
    except BaseException as error:
        for file in files:
            os.close(file)
        if isinstance(error, ConnectionResetError):
            raise ClosedError from error
        raise
    return message, files


def wait(line: socket.socket, event: int, seconds: float | None) -> bool:
    """Wait for ``select.POLLIN`` or ``POLLOUT`` of a line; return whether it came."""
    poll = select.poll()
    poll.register(line, event)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def _left(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _body(line: socket.socket, deadline: float | None, files: list[int]) -> bytes:
    """Return what follows the length of a message; the files that come are put into ``files``."""
    found, size = bytearray(), None
    while size is None or len(found) < size:
        found += _part(line, deadline, files, _PART if size is None else min(size - len(found), 1 << 20))
        if size is None and len(found) >= _HEAD.size:
            size = _HEAD.size + _HEAD.unpack_from(found)[0]
            if size - _HEAD.size > LONGEST:
                raise ValueError(f"a message of {size - _HEAD.size} bytes")
    if len(found) > size:
        raise ValueError(f"{len(found) - size} bytes after a message")
    return bytes(found[_HEAD.size :])


def _part(line: socket.socket, deadline: float | None, files: list[int], size: int) -> bytes:
    flags = 0 if deadline is None else socket.MSG_DONTWAIT
    while True:
        left = _left(deadline)  # looked at before each read, however little comes at a time
        try:
            part, more, _, _ = socket.recv_fds(line, size, _MOST_FILES, flags)
        except BlockingIOError:
            wait(line, select.POLLIN, left)
            continue
        files += more
        if not part:
            raise ClosedError
        return part
