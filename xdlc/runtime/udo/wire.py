"""Messages between a session and its child process: JSON behind its length, and open files."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST = 1 << 26
"""Bytes of a message."""
_MOST_FILES = 4
_HEAD = struct.Struct("<I")


class ClosedError(Exception):
    """The other side has closed the line."""


def send(line: socket.socket, message: Mapping[str, Any], files: Sequence[int] = ()) -> None:
    """Send a message.

    Raises:
        ClosedError: If nobody takes it.
    """
    body = json.dumps(message).encode()
    try:
        socket.send_fds(line, [_HEAD.pack(len(body))], list(files))
        line.sendall(body)
    except (BrokenPipeError, ConnectionResetError) as error:
        raise ClosedError from error


def receive(line: socket.socket, deadline: float | None = None) -> tuple[dict[str, Any], list[int]]:
    """Return a message and the files that came with it, which the caller has to close.

    Args:
        line: Where it comes from.
        deadline: When the whole message has to be there, as ``time.monotonic`` counts; None for whenever.

    Raises:
        ClosedError: If the other side has closed the line.
        ValueError: If it sends something else than messages.
        TimeoutError: If the message is not there in time.
    """
    head, files = b"", list[int]()
    try:
        while len(head) < _HEAD.size:
            _limit(line, deadline)
            part, more, _, _ = socket.recv_fds(line, _HEAD.size - len(head), _MOST_FILES)
            files += more
            if not part:
                raise ClosedError
            head += part
        (size,) = _HEAD.unpack(head)
        if size > LONGEST:
            raise ValueError(f"a message of {size} bytes")
        message = json.loads(_exactly(line, size, deadline))
        if not isinstance(message, dict):
            raise ValueError("a message that is no object")
    except BaseException as error:
        for file in files:
            os.close(file)
        if isinstance(error, ConnectionResetError):
            raise ClosedError from error
        raise
    return message, files


def _limit(line: socket.socket, deadline: float | None) -> None:
    """Let the next read of a line end in time, however little comes at a time."""
    if deadline is None:
        return
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    line.settimeout(left)


def _exactly(line: socket.socket, size: int, deadline: float | None) -> bytes:
    parts = []
    while size:
        _limit(line, deadline)
        part = line.recv(min(size, 1 << 20))
        if not part:
            raise ClosedError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
