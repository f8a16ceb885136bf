"""A generated package whose tests run."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdlc.errors import UsageError, nearest_names
from xdlc.ir import Graph, Model, Op
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.udo.generator.build_context import package_view
from xdlc.udo.generator.rendering import render_cases
from xdlc.udo.testing.case import Case
from xdlc.udo.testing.given import GivenCase
from xdlc.udo.testing.prepared import Prepared

if TYPE_CHECKING:
    from xdlc.opdefs.model import Collection, OpDef
    from xdlc.runtime.udo.kernels import Kernels

Array = Any  # numpy.ndarray
_SECONDS = 600


class Package:
    """A generated package whose tests run.

    Args:
        folder: Its folder.

    Attributes:
        collection: What its configuration defines.
        library: Its registration library on this machine.
    """

    def __init__(self, folder: Path) -> None:
        from xdlc.opdefs import read_valid

        self.folder = folder
        configs = sorted((folder / "config").glob("*OpDef.xml"))
        known = [path for path in configs if path.name == f"{folder.name}OpDef.xml"] or configs[:1]
        if not known:
            raise UsageError(
                "has no OpDef XML", where=str(folder / "config"), fix="generate the package anew"
            )
        self.collection: Collection = read_valid(known[0])
        self.name = self.collection.package
        self._view = package_view(self.collection)
        self._ops = {op.type: op for op in self._view.ops}
        self.library = folder / "libs" / "x86-64_linux_clang" / f"libUdo{self.name}Reg.so"
        self._kernels = folder / "python" / self.name / "kernels.py"
        self._shapes = folder / "python" / self.name / "shapes.py"
        self._opened: dict[Path, Kernels] = {}

    # ------------------------------------------------------------------ checks

    def compare(self, case: Case, *, rtol: float = 1e-5, atol: float = 1e-5) -> None:
        """Check that the C library and the numpy kernel give the same.

        Raises:
            XdlcError: If one of them fails, or is not filled yet.
            AssertionError: If they differ.
        """
        prepared = self._prepared(case)
        expected = prepared.run(self._open(self._kernels), with_defaults=True)
        found = prepared.run(self._open(self._built()))
        self._same(found, expected, f"{case}: the library against the numpy kernel", rtol, atol)

    def repeat(self, case: Case, *, times: int) -> None:
        """Check that the library gives the same outputs for the same inputs, again and again.

        Raises:
            XdlcError: If it fails.
            AssertionError: If it does not.
        """
        prepared = self._prepared(case)
        first, *others = (prepared.run(self._open(self._built())) for _ in range(times))
        for other in others:
            self._same(other, first, f"{case}: one run against another", 0.0, 0.0)

    def threads(self, cases: Sequence[Case], *, threads: int) -> None:
        """Check that several threads, each with the library for itself, get what one alone gets.

        Raises:
            XdlcError: If one of them fails.
            AssertionError: If outputs differ.
        """
        prepared = [self._prepared(case) for case in cases]
        alone = [each.run(self._open(self._built())) for each in prepared]

        def work(_: int) -> list[list[Array]]:
            with self._kernels_of(self._built()) as own:
                return [each.run(own) for each in prepared]

        with ThreadPoolExecutor(threads) as pool:
            for results in pool.map(work, range(threads)):
                for case, found, expected in zip(cases, results, alone, strict=True):
                    self._same(found, expected, f"{case}: in a thread against alone", 0.0, 0.0)

    def cycles(self, cases: Sequence[Case] = (), *, cycles: int, threads: int) -> None:
        """Create, execute and release the operations many times, in several threads of one process.

        Args:
            cases: The operands, which `make check` and `make asan` take from now on too; none: as they are.
            cycles: How many times.
            threads: In how many threads.

        Raises:
            XdlcError: If nothing tells the shapes of outputs.
            AssertionError: If one of them fails.
        """
        if cases:
            given = [GivenCase.of(self._prepared(case), number) for number, case in enumerate(cases)]
            header = self.folder / "obj" / "tests" / "cycle_cases.h"
            header.parent.mkdir(parents=True, exist_ok=True)
            header.write_bytes(render_cases(self._view, given))
        command = ["make", "--no-print-directory", "check", f"CYCLES={cycles}", f"THREADS={threads}"]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        if done.returncode:
            raise AssertionError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")

    def close(self) -> None:
        """End the processes that kernels have run in.

        Raises:
            BackendError: If a library fails at its end.
        """
        while self._opened:
            self._opened.popitem()[1].close()

    # ------------------------------------------------------------------ parts

    def _built(self) -> Path:
        if not self.library.is_file():
            raise UsageError("is not there", where=str(self.library), fix="build it: make all_x86")
        return self.library

    def _by_text(self, view: OpView, definition: OpDef) -> list[TensorSpec] | None:
        """Outputs as the configuration's texts tell them, which may be more than a library can tell."""
        from xdlc.opdefs.shape_text import infer
        from xdlc.udo.generator.variations import cpu_type

        places = self._ops[view.type].outputs
        found = []
        for index, spec in enumerate(infer(definition, view) or [None]):
            if spec is None:
                return None
            place = places[min(index, len(places) - 1)]
            found.append(TensorSpec(spec.shape, cpu_type(place), layout=spec.layout))
        return found

    def _open(self, path: Path) -> Kernels:
        """The kernels of a file, in a process that all tests share."""
        if path not in self._opened:
            self._opened[path] = self._kernels_of(path)
        return self._opened[path]

    def _kernels_of(self, path: Path) -> Kernels:
        from xdlc.container.udo import add_definitions
        from xdlc.runtime.udo.kernels import Kernels

        model = Model()
        graph = model.add_graph(Graph("definitions"))
        for type in self._ops:
            graph.append(Op(type, [], [], name=type, package=self.name))
        add_definitions(model, {self.name: self.collection})
        return Kernels([path], model=model)

    @staticmethod
    def _same(found: list[Array], expected: list[Array], what: str, rtol: float, atol: float) -> None:
        import numpy

        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            numpy.testing.assert_allclose(
                one, other, rtol=rtol, atol=atol, equal_nan=True, err_msg=f"{what}, output {index}"
            )

    def _prepared(self, case: Case) -> Prepared:
        if case.type not in self._ops:
            raise UsageError(
                f"package {self.name} has no operation {case.type}",
                fix=nearest_names(case.type, self._ops) or f"use one of {', '.join(self._ops)}",
            )
        return Prepared(self.collection, self._ops[case.type], case, self._told)

    def _told(self, view: OpView, definition: OpDef) -> list[TensorSpec]:
        """Outputs of an operation: from the library, else from the Python functions."""
        found = self._open(self._built()).infer(view, definition) or self._by_text(view, definition)
        if found is None and self._shapes.is_file():
            found = self._open(self._shapes).infer(view, definition)
        if found is not None:
            return found
        raise UsageError(
            f"nothing tells the shapes of {view.type}",
            fix=f"fill infer_{view.type} in jni/src/reg/shapes, or shape_{view.type} in {self._shapes.name}",
        )
