"""A quantized DLC has the same bytes, whoever runs the samples."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support import tasks
from tests.support.htp_models import cnn

OPTIONS: dict[str, dict[str, Any]] = {
    "auto": {},
    "adaround": {"weights_bitwidth": 4, "algorithms": ["adaround"]},
    "goal": {"min_sqnr": 40.0},
}


def samples(count: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal((1, 8, 8, 4)).astype(np.float32)} for _ in range(count)]


def dlc(folder: Path, count: int, **options: Any) -> bytes:
    path = folder / "quantized.dlc"
    xdlc.quantize(cnn(quantized=False), samples(count), notify=lambda _: None, **options).save(path)
    return path.read_bytes()


@pytest.mark.parametrize("name", OPTIONS)
def test_jobs_and_executors_do_not_change_a_byte(name: str, tmp_path: Path) -> None:
    options = OPTIONS[name]
    alone = dlc(tmp_path, 12, **options)
    assert dlc(tmp_path, 12, jobs=2, **options) == alone
    with ThreadPoolExecutor(2) as pool:
        assert dlc(tmp_path, 12, executor=pool, **options) == alone


@pytest.mark.frameworks
def test_a_cluster_does_not_change_a_byte_even_if_a_worker_dies(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    alone = dlc(tmp_path, 256)
    assert dlc(tmp_path, 256, jobs=2) == alone
    with tasks.cluster(2) as address:
        assert dlc(tmp_path, 256, scheduler=address) == alone
        with distributed.Client(address, set_as_default=False) as client:
            first = next(iter(client.run(os.getpid).values()))
        killed = threading.Event()

        def step(title: str, done: int, total: int) -> None:
            if title == "calibrating" and done > 20 and not killed.is_set():
                killed.set()
                os.kill(first, signal.SIGKILL)

        assert dlc(tmp_path, 256, scheduler=address, step=step) == alone
        with distributed.Client(address, set_as_default=False) as client:
            assert first not in client.run(os.getpid).values()
