"""What the vendor's library logs."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_uint64, c_void_p

from xdlc.runtime.htp.library import LogCallback

LOG_ERROR = 1
_HARMLESS = ("unexpected GraphHtpSettings option",)  # an error line of runs that succeed, too


class VendorLog:
    """Collects what the library logs; give ``callback`` to logCreate."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.callback = LogCallback(self._receive)
        self._format = ctypes.CDLL(None).vsnprintf

    def _receive(self, template: bytes, level: int, _time: int, arguments: int) -> None:
        if level > LOG_ERROR:
            return
        buffer = ctypes.create_string_buffer(8192)
        self._format(buffer, c_uint64(len(buffer)), c_char_p(template), c_void_p(arguments))
        self._lines.append(buffer.value.decode(errors="replace").strip())

    def take(self) -> list[str]:
        """Return the error lines since the last call, each once."""
        lines = [line.removeprefix("<E>").strip() for line in self._lines]
        self._lines.clear()
        return list(dict.fromkeys(line for line in lines if line and not line.startswith(_HARMLESS)))
