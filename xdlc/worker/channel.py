"""Messages between a process and its child: length, JSON, and open files."""

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


def pair() -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a new line.

    The number of the second is not 0, 1 or 2, which are the child's own.

    Raises:
        OSError: If the system opens no more files.
    """
    import fcntl

    line, far_end = socket.socketpair()
    try:
        with far_end:
            return line, socket.socket(fileno=fcntl.fcntl(far_end, fcntl.F_DUPFD_CLOEXEC, 3))
    except OSError:
        line.close()
        raise


def send(
    line: socket.socket, message: Mapping[str, Any], files: Sequence[int] = (), deadline: float | None = None
) -> None:
    """Send a message.

    Args:
        message: What JSON can hold.
        files: Open files that the other side gets.
        deadline: When the whole message has to be sent, as ``time.monotonic`` counts; default: never.

    Raises:
        ClosedError: If the other side has closed the line.
        TimeoutError: If it does not receive the message in time.
    """
    body = json.dumps(message).encode()
    rest = memoryview(_HEAD.pack(len(body)) + body)
    flags = 0 if deadline is None else socket.MSG_DONTWAIT
    try:
        while rest:
            try:
                sent = socket.send_fds(line, [rest], list(files), flags)
            except BlockingIOError:
                wait(line, select.POLLOUT, _seconds_until(deadline))
            else:
                rest, files = rest[sent:], ()
    except (BrokenPipeError, ConnectionResetError) as error:
        raise ClosedError from error


def receive(line: socket.socket, deadline: float | None = None) -> tuple[dict[str, Any], list[int]]:
    """Return a message and the files that came with it, which the caller has to close.

    The other side sends nothing more before it is answered.

    Args:
        deadline: When the whole message has to be there, as ``time.monotonic`` counts; default: never.

    Raises:
        ClosedError: If the other side has closed the line.
        ValueError: If it sends anything but one message.
        TimeoutError: If the message is not there in time.
    """
    files = list[int]()
    try:
        message = json.loads(_body(line, deadline, files))
        if not isinstance(message, dict):
            raise ValueError("a message that is not an object")
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


def _seconds_until(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _body(line: socket.socket, deadline: float | None, files: list[int]) -> bytes:
    """Return the content of a message; append its files to ``files``."""
    received, size = bytearray(), None
    while size is None or len(received) < size:
        most = _PART if size is None else min(size - len(received), 1 << 20)
        received += _part(line, deadline, files, most)
        if size is None and len(received) >= _HEAD.size:
            size = _HEAD.size + _HEAD.unpack_from(received)[0]
            if size - _HEAD.size > LONGEST:
                raise ValueError(f"a message of {size - _HEAD.size} bytes")
    if len(received) > size:
        raise ValueError(f"{len(received) - size} bytes after a message")
    return bytes(received[_HEAD.size :])


def _part(line: socket.socket, deadline: float | None, files: list[int], size: int) -> bytes:
    flags = 0 if deadline is None else socket.MSG_DONTWAIT
    while True:
        seconds = _seconds_until(deadline)  # before each read, however little comes at a time
        try:
            part, more, _, _ = socket.recv_fds(line, size, _MOST_FILES, flags)
        except BlockingIOError:
            wait(line, select.POLLIN, seconds)
            continue
        files += more
        if not part:
            raise ClosedError
        return part
