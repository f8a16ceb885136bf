"""Execution of IR graphs on the host's CPU or the vendor's emulation.

Since 1.29, onnxruntime for Linux sends reports of its use to a collector and keeps an identifier under the
home folder.  Its variable ORT_DISABLE_TELEMETRY, read when the library is loaded, prevents both; its call
``disable_telemetry_events`` comes too late.  The variable is set for this process and its children, unless
the user has set it otherwise.
"""

from __future__ import annotations

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
