"""Files of a package, and their rendering from templates.

Targets take ``{package}``, ``{core}`` (``CPU``, ``GPU``, ``DSP_V68``) and ``{op}``.  A template sees
``package`` (``PackageView``), ``core`` (``CoreView``, of rows with a group) and ``op`` (``OperationView``,
of rows per op).

What each folder below ``jni/src`` has to offer: a ``Makefile`` with the targets ``x86``, ``android`` and
``clean``, and for DSPs ``aarch64`` too (of a DSP, ``android`` builds the Hexagon library and ``x86`` the one
that prepares graphs).  It includes ``../../../common.mk``, which defines ``PACKAGE``, ``ROOT``, ``LIBS`` (the
folder of built libraries), ``BUILD``, and ``$(call need,VARIABLE,what it is,where it is from)``.
Values of a configuration are printed through the filters of ``naming.py`` and ``cpp.py`` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from xdlc.runtime.interfaces import stand_ins
from xdlc.udo.generator import cpp, gpu, htp, naming, samples
from xdlc.udo.generator.build_context import place_text
from xdlc.udo.generator.naming import finalize
from xdlc.udo.generator.template_context import (
    CPU,
    DSP,
    DSP_LEGACY,
    GPU,
    CoreView,
    OperationView,
    PackageView,
)

Per = Literal["package", "core", "op"]


@dataclass(frozen=True, slots=True)
class FileRule:
    """A file of a package, or a kind of files.

    Attributes:
        template: File below ``templates``, without ``.j2``.
        target: Its path in the package.
        per: Whether there is one a package, one a core of the group, or one an op (of each such core).
        group: The file is there for cores of this group only; empty: always.
        user: Whether it is for users to fill, so that a changed one is never overwritten.
        when: Whether an op has the file, or the package if there is one a package.
        source: Whether it is source of a core, which cores that share theirs have once.
    """

    template: str
    target: str
    per: Per = "package"
    group: str = ""
    user: bool = False
    when: Callable[[Any], bool] | None = None
    source: bool = False


def _same(path: str, per: Per = "package", group: str = "", user: bool = False) -> FileRule:
    return FileRule(path, path, per, group, user)


def _from(template: str, target: str, group: str = "") -> FileRule:
    """Return the rule of a makefile that the registration library and cores share."""
    return FileRule(f"jni/src/{template}", target, "core" if group else "package", group)


SHARED = (
    _same("Makefile"),
    _same("common.mk"),
    _same("CMakeLists.txt"),
    _same("README.md"),
    _same("include/utils/IUdoOpDefinition.hpp"),
    _same("include/utils/UdoMacros.hpp"),
    _same("include/utils/UdoUtil.hpp"),
    _same("include/utils/SnpeUdoTypes.hpp"),
    _same("include/utils/UdoPackage.hpp"),
    _same("include/utils/QnnInterface.hpp"),
    FileRule("include/Definitions.hpp", "include/{package}Definitions.hpp"),
    _same("jni/src/utils/UdoUtil.cpp"),
    _same("jni/src/utils/SnpeUdoTypes.cpp"),
    _same("jni/src/utils/implementation/UdoPackage.cpp"),
    _same("jni/src/utils/implementation/SnpeUdoImpl.cpp"),
    _same("jni/src/utils/implementation/QnnInterface.cpp"),
    FileRule("jni/src/utils/Definitions.cpp", "jni/src/utils/{package}Definitions.cpp"),
    _from("Makefile", "jni/src/reg/Makefile"),
    _from("Makefile.linux-x86_64", "jni/src/reg/makefiles/Makefile.linux-x86_64"),
    FileRule("jni/src/reg/RegLib.cpp", "jni/src/reg/{package}RegLib.cpp"),
    FileRule(
        "jni/src/reg/shapes/shape.cpp",
        "jni/src/reg/shapes/{op}.cpp",
        "op",
        user=True,
        when=lambda op: not op.states_shapes,
    ),
)

_INTERFACE = "jni/src/utils/implementation/Interface.cpp"
CPU_FILES = (
    _from("Makefile", "jni/src/CPU/Makefile", CPU),
    _from("Makefile.linux-x86_64", "jni/src/CPU/makefiles/Makefile.linux-x86_64", CPU),
    _same("jni/src/CPU/include/CpuCustomOpPackage.hpp", "core", CPU),
    _same("jni/src/CPU/include/utils/CpuTensors.hpp", "core", CPU),
    _same("jni/src/CPU/src/CpuCustomOpPackage.cpp", "core", CPU),
    _same("jni/src/CPU/src/utils/CpuTensors.cpp", "core", CPU),
    FileRule(_INTERFACE, "jni/src/CPU/src/{package}Interface.cpp", "core", CPU),
    FileRule("jni/src/CPU/include/ops/op.hpp", "jni/src/CPU/include/ops/{op}.hpp", "op", CPU),
    FileRule("jni/src/CPU/src/bindings/op.hpp", "jni/src/CPU/src/bindings/{op}.hpp", "op", CPU),
    FileRule("jni/src/CPU/src/ops/op.cpp", "jni/src/CPU/src/ops/{op}.cpp", "op", CPU, user=True),
)

HOST_FILES = (
    FileRule("python/kernels.py", "python/{package}/kernels.py", user=True),
    FileRule(
        "python/shapes.py",
        "python/{package}/shapes.py",
        user=True,
        when=lambda package: not all(op.states_shapes for op in package.ops),
    ),
    FileRule("tests/test_package.py", "tests/test_{package}.py", "core", CPU, user=True),
)

ANDROID_FILES = (
    _same("jni/Android.mk"),
    _same("jni/Application.mk"),
    _from("Android.mk", "jni/src/reg/makefiles/Android.mk"),
    _from("Android.mk", "jni/src/CPU/makefiles/Android.mk", CPU),
    _from("Android.mk", "jni/src/GPU/makefiles/Android.mk", GPU),
    FileRule("jni/Application.mk", "jni/src/reg/makefiles/Application.mk"),
    FileRule("jni/Application.mk", "jni/src/CPU/makefiles/Application.mk", "core", CPU),
    FileRule("jni/Application.mk", "jni/src/GPU/makefiles/Application.mk", "core", GPU),
)

GPU_FILES = (
    _from("Makefile", "jni/src/GPU/Makefile", GPU),
    _from("Makefile.linux-x86_64", "jni/src/GPU/makefiles/Makefile.linux-x86_64", GPU),
    _same("jni/src/GPU/include/GpuCustomOpPackage.hpp", "core", GPU),
    _same("jni/src/GPU/src/GpuCustomOpPackage.cpp", "core", GPU),
    FileRule(_INTERFACE, "jni/src/GPU/src/{package}Interface.cpp", "core", GPU),
    FileRule("jni/src/GPU/src/ops/op.cpp", "jni/src/GPU/src/ops/{op}.cpp", "op", GPU, user=True),
)


def _dsp(group: str, folder: str, path: str, target: str = "", per: Per = "core") -> FileRule:
    target = f"jni/src/{{core}}/{target or path}"
    return FileRule(f"jni/src/{folder}/{path}", target, per, group, per == "op", source=path != "Makefile")


DSP_FILES = (
    _dsp(DSP_LEGACY, "DSP", "Makefile"),
    _dsp(DSP_LEGACY, "DSP", "include/UdoDsp.h"),
    _dsp(DSP_LEGACY, "DSP", "src/UdoDsp.c"),
    _dsp(DSP_LEGACY, "DSP", "src/ops/op.c", "src/ops/{op}.c", "op"),
    _dsp(DSP, "HTP", "Makefile"),
    _dsp(DSP, "HTP", "src/Interface.cpp", "src/{package}Interface.cpp"),
    _dsp(DSP, "HTP", "src/ops/op.cpp", "src/ops/{op}.cpp", "op"),
)

FILES = (*SHARED, *CPU_FILES, *ANDROID_FILES, *GPU_FILES, *DSP_FILES, *HOST_FILES)


TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class Rendered:
    """A file of a package.

    Attributes:
        path: Its path in the package, with ``/``.
        content: What is in it.
        user: Whether it is for users to fill.
    """

    path: str
    content: bytes
    user: bool = False


def render(package: PackageView) -> list[Rendered]:
    """Return the files of a package, sorted by path."""
    found = [Rendered(f"include/standin/{path}", text.encode()) for path, text in stand_ins().items()]
    for rule in FILES:
        found += (_file(rule, package, core, op) for core, op in _each(rule, package))
    return sorted(found, key=lambda file: file.path)


def _each(rule: FileRule, package: PackageView) -> Iterator[tuple[CoreView | None, OperationView | None]]:
    """Yield the core and operation of each file of a rule."""
    cores: list[CoreView | None] = [core for core in package.cores if core.group == rule.group]
    if not rule.group:
        cores = [None]
    if rule.per == "package":
        if cores and (rule.when is None or rule.when(package)):
            yield None, None
        return
    for core in cores:
        if rule.source and core is not None and core.owner != core.name:
            continue
        if rule.per == "core":
            yield core, None
            continue
        for op in package.ops if core is None else core.ops:
            if rule.when is None or rule.when(op):
                yield core, op


def _file(rule: FileRule, package: PackageView, core: CoreView | None, op: OperationView | None) -> Rendered:
    path = rule.target.format(package=package.name, core=core.name if core else "", op=op.type if op else "")
    return Rendered(path, _text(rule.template, package=package, core=core, op=op), rule.user)


def _text(template: str, **values: Any) -> bytes:
    text: str = _environment().get_template(f"{template}.j2").render(values)
    return text.encode()


@cache
def _environment() -> Any:
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        finalize=finalize,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for module in (cpp, gpu, htp, naming, samples):
        environment.filters |= module.FILTERS
    environment.tests["number_param"] = gpu.is_number
    environment.filters["place_text"] = place_text
    return environment
