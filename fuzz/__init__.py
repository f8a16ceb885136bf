"""Fuzzing of everything that reads untrusted input; see README.md."""

import os

os.environ["XDLC_FAILED_PASSES_RAISE"] = "1"  # a pass that fails is omitted for users alone
