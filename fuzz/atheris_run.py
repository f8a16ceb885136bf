"""Coverage-guided fuzzing of a target with atheris, where that is installed.

::

    python -m fuzz.atheris_run tflite CORPUS -max_total_time=600
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["xdlc"]):
    from fuzz.mutate import mutate
    from fuzz.run import attempt
    from fuzz.targets import load

target = load()[sys.argv.pop(1)]
files = next(iter(target.seeds()))
name = next(each for each in files if each not in target.fixed)


def once(data: bytes) -> None:
    """Run the case in which one file has other content."""
    with tempfile.TemporaryDirectory() as folder:
        attempt(target, Path(folder), {**files, name: data})


def changed(data: bytes, most: int, seed: int) -> bytes:
    """Return content with a few changes by the mutator of its form."""
    return mutate(random.Random(seed), name, data or files[name])[:most]


atheris.Setup(sys.argv, once, custom_mutator=changed)
atheris.Fuzz()
