"""Service of ``xdlc.worker`` with the vendor's runtime: one dialog, one process."""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_float, c_uint32, c_uint64, c_void_p
from typing import Any

from xdlc.errors import BackendError, UsageError, XdlcError
from xdlc.runtime.htp.library import INSTALL, VendorLog, check_folder
from xdlc.worker.limits import watch_memory

LIBRARY = "libGenie.so"
PATIENCE = 1.0
"""Seconds after which ``more`` answers without a token."""
_LOG_ERROR = 1
_WHOLE = 0  # GENIE_DIALOG_SENTENCE_COMPLETE
_ABORT = 1  # GENIE_DIALOG_ACTION_ABORT
_CONTEXT_EXCEEDED = 4  # GENIE_STATUS_WARNING_CONTEXT_EXCEEDED
_LogCallback = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_uint32, c_uint64, c_void_p)
_TokenCallback = ctypes.CFUNCTYPE(None, POINTER(c_uint32), c_uint32, c_uint32, c_void_p)
_EmbeddingCallback = ctypes.CFUNCTYPE(None, POINTER(c_uint32), c_uint32, POINTER(c_float), c_void_p)


def commands() -> dict[str, Callable[[dict[str, Any], list[int]], dict[str, Any]]]:
    """Return the functions of the process by request."""
    watch_memory()
    dialog = _Dialog()
    return {
        "open": dialog.open,
        "open_encoder": dialog.open_encoder,
        "embed": dialog.embed,
        "start": dialog.start,
        "more": dialog.more,
        "stop": dialog.stop,
        "reset": dialog.reset,
    }


class _Dialog:
    """The dialog of the process, with the answer that is under way."""

    def __init__(self) -> None:
        self._log = VendorLog()
        self._on_log = _LogCallback(lambda _handle, *arguments: self._log.receive(*arguments))
        self._on_tokens = _TokenCallback(self._add)
        self._dialog, self._encoder = c_void_p(), c_void_p()
        self._changed = threading.Condition()
        self._tokens: list[int] = []
        self._is_done, self._is_answering = True, False
        self._problem: XdlcError | None = None

    def open(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """Load the library and the context binaries of a dialog."""
        config = self._configured("Dialog", request)
        self._call("GenieDialog_create", config, byref(self._dialog))
        return {}

    def open_encoder(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """Load the library and the context binary of an encoder."""
        config = self._configured("Embedding", request)
        self._call("GenieEmbedding_create", config, byref(self._encoder))
        return {}

    def embed(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """Return the numbers that an encoder computes of a text."""
        numbers: list[float] = []

        def take(dims: Any, rank: int, values: Any, _user: int | None) -> None:
            numbers[:] = values[: math.prod(dims[:rank])]

        text = request["text"].encode()
        self._call("GenieEmbedding_generate", self._encoder, text, _EmbeddingCallback(take), None)
        return {"numbers": numbers}

    def _configured(self, kind: str, request: dict[str, Any]) -> c_void_p:
        """Load the library; return the configuration of a dialog or an embedding.

        Relative paths start at the folder of the request.
        """
        check_folder(request["library"])
        os.chdir(request["folder"])
        try:
            self._genie = ctypes.CDLL(os.path.join(request["library"], LIBRARY), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise BackendError(f"{LIBRARY} cannot be loaded: {error}", fix=INSTALL) from error
        log, config = c_void_p(), c_void_p()
        self._call("GenieLog_create", None, self._on_log, c_uint32(_LOG_ERROR), byref(log))
        self._call(f"Genie{kind}Config_createFromJson", request["config"].encode(), byref(config))
        self._call(f"Genie{kind}Config_bindLogger", config, log)
        return config

    def start(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """Start an answer to tokens, which ``more`` returns."""
        self._call("GenieDialog_setMaxNumTokens", self._dialog, c_uint32(request["most"]))
        self._tokens, self._is_done, self._problem = [], False, None
        self._is_answering = False
        threading.Thread(target=self._answer, args=[request["tokens"]], daemon=True).start()
        return {}

    def more(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """Return the tokens of the answer since the last call, and whether it has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._tokens or self._is_done, PATIENCE)
            tokens, self._tokens = self._tokens, []
            if self._problem is not None and not tokens:
                raise self._problem
            return {"tokens": tokens, "is_done": self._is_done and self._problem is None}

    def stop(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """End the answer that is under way."""
        self._call("GenieDialog_signal", self._dialog, c_uint32(_ABORT))
        with self._changed:
            self._changed.wait_for(lambda: self._is_done)
        return {}

    def reset(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        self._call("GenieDialog_reset", self._dialog)
        return {}

    def _answer(self, prompt: list[int]) -> None:
        problem: XdlcError | None = None
        tokens = (c_uint32 * len(prompt))(*prompt)
        query = tokens, c_uint32(len(prompt)), c_uint32(_WHOLE), self._on_tokens, None
        try:
            self._call("GenieDialog_tokenQuery", self._dialog, *query)
        except XdlcError as error:
            problem = error
        finally:
            with self._changed:
                self._problem, self._is_done = problem, True
                self._changed.notify()

    def _add(self, tokens: Any, count: int, _code: int, _user: int | None) -> None:
        with self._changed:
            self._tokens += tokens[:count]
            self._is_answering |= count > 0
            self._changed.notify()

    def _call(self, name: str, *arguments: object) -> None:
        """Call a function; raise its status, with what the library logs, as an error."""
        try:
            function = getattr(self._genie, name)
        except AttributeError as error:
            raise BackendError(
                f"{LIBRARY} has no function {name}", fix=f"install {LIBRARY}: {INSTALL}"
            ) from error
        status = function(*arguments)
        lines = self._log.take()
        if status == _CONTEXT_EXCEEDED and self._is_answering:
            return  # the answer ends with the context
        if status == _CONTEXT_EXCEEDED:
            raise UsageError(
                "the prompt is too long for the context",
                fix="shorten the prompt: the context also holds padding and the answer",
            )
        if status:
            reason = "; ".join(lines) or "without a message"
            raise BackendError(f"{name} failed with status {status}: {reason}")
