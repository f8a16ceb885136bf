"""Progress of builds of bundles, which may be interrupted."""

from __future__ import annotations

import json
from pathlib import Path

from xdlc.ir.files import kept_apart, read_bytes, replace_text
from xdlc.json_fields import fits, json_value
from xdlc.llm import genai
from xdlc.llm.bundle import FACTS
from xdlc.llm.running import EMULATION

PROGRESS = "build.json"
"""File of a bundle under construction with the fingerprint of its parts."""
_LONGEST = 1 << 16


class Progress:
    """The finished parts of a build, noted in its folder.

    Files of another build are removed from the folder.

    Attributes:
        checks: What was verified, by the names of context binaries.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._path, self._fingerprint = folder / PROGRESS, fingerprint
        self._checks: dict[str, str] = {}
        with kept_apart([self._path]):  # which is replaced later on
            content = read_bytes(self._path, _LONGEST)[:_LONGEST] if self._path.is_file() else b""
        try:
            state = json_value(content.decode("utf-8"))
        except ValueError:  # also of UTF-8
            state = None
        if fits(state, {"fingerprint": str, "checks": {"*": str}}) and state["fingerprint"] == fingerprint:
            self._checks = state["checks"]
            return
        binaries = ("*/decoder_*_of_*.bin", f"{EMULATION}/*/decoder_*_of_*.bin")
        for pattern in (FACTS, "decoder_*_of_*.dlc", *binaries):
            for file in folder.glob(pattern):
                if file.suffix == ".bin":  # which a pipeline names
                    file.with_name(genai.CONFIG).unlink(missing_ok=True)
                file.unlink()
        self._write()

    @property
    def checks(self) -> tuple[str, ...]:
        """A sentence for each verified context binary."""
        return tuple(self._checks.values())

    def note(self, file: Path, check: str | None) -> None:
        """Note what was verified of a context binary."""
        if check is not None:
            self._checks[f"{file.parent.name}/{file.name}"] = check
            self._write()

    def end(self) -> None:
        """Remove the file: the bundle is complete."""
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        state = {"fingerprint": self._fingerprint, "checks": self._checks}
        replace_text(self._path, json.dumps(state) + "\n")
