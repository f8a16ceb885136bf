"""The server that runs the tools on hostile files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hostile.confined import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    held = Server()
    yield held
    held.close()
