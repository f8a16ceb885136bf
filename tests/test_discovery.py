from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from xdlc.registry import import_modules


def test_no_thread_goes_on_before_all_modules_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "registering"
    package.mkdir()
    (package / "__init__.py").write_text("known = []\n")
    (package / "first.py").write_text("import registering\nregistering.known.append(1)\n")
    (package / "second.py").write_text(
        "import time\nimport registering\ntime.sleep(0.3)\nregistering.known.append(2)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    thread = threading.Thread(target=import_modules, args=["registering"])
    thread.start()
    while "registering.second" not in sys.modules:
        time.sleep(0.001)
    import_modules("registering")
    assert sys.modules["registering"].known == [1, 2]
    thread.join()
