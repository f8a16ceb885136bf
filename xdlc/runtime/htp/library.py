"""Loader of the vendor's libraries, from a package or an SDK, with their log.

Only a child process (see ``service``) loads them: a crash in there must not end the caller.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int32, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from xdlc.errors import BackendError, UsageError
from xdlc.runtime.htp.structs import QnnBinaryInfo, QnnOpConfig, QnnTensor

VARIABLE = "XDLC_VENDOR"
"""Variable of the environment that names the folder of the libraries; child processes inherit it."""
_PLACES = ("", "lib/x86_64-linux-clang", "onnxruntime_qnn")
"""Folders of the libraries inside the folder that is named."""
_LIBRARIES = ("libQnnHtp.so", "libQnnSystem.so")


@dataclass(frozen=True, slots=True)
class Release:
    """Facts on the libraries of an SDK that are measured: no other version is called.

    Attributes:
        core: API version of libQnnHtp.
        system: API version of libQnnSystem.
        package: Version of onnxruntime-qnn that has these libraries.
        device_offset: Offset in bytes of the value of a device's option in its struct.
        shares_weights: Whether it writes caches that share weights.
    """

    sdk: tuple[int, int]
    core: tuple[int, int]
    system: tuple[int, int]
    package: str
    device_offset: int = 8
    shares_weights: bool = True


RELEASES = (
    Release((2, 47), (2, 36), (1, 11), "2.3.0", shares_weights=False),
    Release((2, 48), (2, 37), (1, 12), "2.4.0", shares_weights=False),
    Release((2, 49), (2, 38), (1, 13), "2.5.0", device_offset=4, shares_weights=False),
    Release((2, 50), (2, 39), (1, 14), "2.6.0"),
    Release((2, 51), (2, 40), (1, 15), "2.7.0"),
)
"""Known releases by age; functions and all other structs are the same in them."""
SWEPT_SDK = RELEASES[-1].sdk
"""The version whose faults xdlc.passes.htp_forms avoids."""
KNOWN_PACKAGE = f"onnxruntime-qnn {RELEASES[-1].package}"
INSTALL = f"pip install {KNOWN_PACKAGE.replace(' ', '==')}"  # whichever way xdlc was installed

_P = c_void_p
LogCallback = ctypes.CFUNCTYPE(None, c_char_p, c_int32, c_uint64, c_void_p)

# name: (position in the interface struct, argument types)
_Functions = Mapping[str, tuple[object, ...]]
_CORE: _Functions = {
    "backendCreate": (1, _P, _P, _P),
    "backendGetBuildId": (4, _P),
    "backendValidateOpConfig": (7, _P, QnnOpConfig),
    "contextCreate": (9, _P, _P, _P, _P),
    "contextGetBinarySize": (11, _P, _P),
    "contextGetBinary": (12, _P, _P, c_uint64, _P),
    "contextCreateFromBinary": (13, _P, _P, _P, _P, c_uint64, _P, _P),
    "graphCreate": (15, _P, c_char_p, _P, _P),
    "graphAddNode": (18, _P, QnnOpConfig),
    "graphFinalize": (19, _P, _P, _P),
    "graphRetrieve": (20, _P, c_char_p, _P),
    "graphExecute": (21, _P, POINTER(QnnTensor), c_uint32, POINTER(QnnTensor), c_uint32, _P, _P),
    "tensorCreateGraphTensor": (24, _P, POINTER(QnnTensor)),
    "logCreate": (25, LogCallback, c_int32, _P),
    "profileCreate": (28, _P, c_uint32, _P),
    "profileSetConfig": (29, _P, _P),
    "profileFree": (34, _P),
    "deviceCreate": (40, _P, _P, _P),
    "errorGetMessage": (48, c_uint64, _P),
    "contextAddToDlc": (71, _P, _P),
}
_SYSTEM: _Functions = {
    "contextCreate": (0, _P),
    "contextGetMetadata": (2, _P, _P, c_uint64, POINTER(POINTER(QnnBinaryInfo))),
    "dlcSave": (21, _P, c_char_p),
    "dlcCreateWithDestDir": (26, _P, c_char_p, _P),
}


def library_folder() -> Path:
    """Return the folder of the vendor's libraries.

    The folder that ``XDLC_VENDOR`` names goes before that of an installed package.

    Raises:
        BackendError: If this machine cannot run them, the folder named has none, or no package is installed.
    """
    here = platform.system(), platform.machine()
    if here != ("Linux", "x86_64"):
        raise BackendError(
            f"the HTP compiler and emulation run on Linux x86_64, but this is {here[0]} {here[1]}",
            fix="run this step on a Linux x86_64 machine; all other parts of xdlc work here",
            code="XD702",
        )
    if named := named_folder():
        return _within(Path(named))
    spec = find_spec("onnxruntime_qnn")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        raise BackendError(
            "the HTP compiler and emulation need the package onnxruntime-qnn, which is not installed",
            fix=INSTALL,
            code="XD701",
        )
    return Path(folders[0])


def named_folder() -> str | None:
    """Return the folder that the environment names; None without one."""
    return os.environ.get(VARIABLE) or None


@contextmanager
def using(folder: Path) -> Iterator[None]:
    """Use the libraries of a folder in this process and in children started meanwhile."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _within(folder: Path) -> Path:
    """Return the folder of the libraries in a package or SDK."""
    for place in _PLACES:
        if all((folder / place / name).is_file() for name in _LIBRARIES):
            return (folder / place).resolve()
    raise BackendError(
        f"the folder has no {' and '.join(_LIBRARIES)}; xdlc searched {', '.join(filter(None, _PLACES))}",
        where=str(folder),
        fix=f"name the folder of an SDK or of the package onnxruntime-qnn, or unset {VARIABLE}",
        code="XD703",
    )


def check_folder(parent: str) -> None:
    """Refuse to load libraries of another folder than the parent process.

    Raises:
        BackendError: If this process finds another one.
    """
    own = str(library_folder())
    if own != parent:
        raise BackendError(
            f"a child process finds the vendor's libraries in {own}, but this process finds them in {parent}",
            fix="put the folder of the package first in the variable PYTHONPATH, not in sys.path",
        )


class Library:
    """The functions of one library's interface, called by name.

    Args:
        entry: Its exported function that returns the interface.
        header: Bytes in front of the function pointers.
        functions: Position and argument types by name.

    Attributes:
        release: What is known of it, once its version is checked.

    Raises:
        BackendError: If the library cannot be loaded or offers no interface.
    """

    def __init__(self, path: Path, entry: str, header: int, functions: _Functions) -> None:
        try:
            get_providers = getattr(ctypes.CDLL(str(path)), entry)
        except (OSError, AttributeError) as error:
            raise BackendError(
                f"{path.name} cannot be loaded: {error}", fix=f"reinstall: {INSTALL}", code="XD703"
            ) from error
        get_providers.restype = c_uint64
        providers, count = POINTER(c_void_p)(), c_uint32()
        if get_providers(byref(providers), byref(count)) or not count.value:
            raise BackendError(f"{path.name} has no QNN interface", fix=f"reinstall the package: {INSTALL}")
        self._provider: int = providers[0]
        self._header = header
        self._functions = functions
        self._bound: dict[str, ctypes._FuncPointer] = {}
        self.release = RELEASES[-1]

    def version(self, offset: int = 16) -> tuple[int, ...]:
        """Return the API version (major, minor, patch) that stands at ``offset``."""
        return tuple((c_uint32 * 3).from_address(self._provider + offset))

    def call(self, name: str, *arguments: object) -> int:
        """Call a function; return the low 16 bits of its error code (0: success)."""
        bound = self._bound.get(name)
        if bound is None:
            slot, *types = self._functions[name]
            address = c_void_p.from_address(self._provider + self._header + 8 * int(slot)).value  # type: ignore[call-overload]
            bound = self._bound[name] = ctypes.CFUNCTYPE(c_uint64, *types)(address)  # type: ignore[arg-type]
        return int(bound(*arguments)) & 0xFFFF


def load_htp() -> Library:
    """Return libQnnHtp.

    Raises:
        BackendError: If it is missing, or of a version whose layout is not known.
    """
    library = Library(library_folder() / "libQnnHtp.so", "QnnInterface_getProviders", 40, _CORE)
    library.release = known_release("core", library.version())
    return library


def load_system() -> Library:
    """Return libQnnSystem.

    Raises:
        BackendError: If it is missing, or of a version whose layout is not known.
    """
    library = Library(library_folder() / "libQnnSystem.so", "QnnSystemInterface_getProviders", 32, _SYSTEM)
    library.release = known_release("system", library.version())
    return library


def known_release(which: str, version: tuple[int, ...]) -> Release:
    """Return the release whose library has an API version.

    Args:
        which: ``core`` or ``system``.
        version: The API version of the library.

    Raises:
        BackendError: If none is known, naming the version and those that are known.
    """
    by_api: dict[tuple[int, ...], Release] = {getattr(entry, which): entry for entry in RELEASES}
    release = by_api.get(version[:2])
    if release is None:
        names = ", ".join(f"{dotted(api)} (SDK {dotted(entry.sdk)})" for api, entry in by_api.items())
        problem = f"the vendor library has QNN {which} API {dotted(version)}, but xdlc supports only {names}"
        raise BackendError(problem, fix=INSTALL, code="XD703")
    return release


def dotted(version: tuple[int, ...]) -> str:
    """Return a version like ``2.40.0``."""
    return ".".join(map(str, version))


_VERSION = re.compile(r"v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:\.\d+)*(?:[-_+].*)?", re.ASCII)
_TOLD = re.compile(r"""^qnn_version\s*=\s*['"]([^'"]+)['"]""", re.MULTILINE)
_INFO = "build_and_package_info.py"
_SDK_TOLD = re.compile(r"""^version\s*:\s*['"]?v?([0-9][^'"\s]*)""", re.MULTILINE)


def find_version(text: str | None) -> tuple[int, ...] | None:
    """Return a version's numbers, two or three; None without a version.

    The time of the build follows them.

    Example:
        >>> find_version("2.40"), find_version("v2.51.0.260929181845"), find_version("new")
        ((2, 40), (2, 51, 0), None)
    """
    match = _VERSION.fullmatch(text.strip()) if text is not None else None
    return tuple(int(part) for part in match.groups() if part is not None) if match else None


def read_version(text: str) -> tuple[int, ...]:
    """Return a version's numbers, two or three.

    Raises:
        UsageError: If the text is not a version.
    """
    found = find_version(text)
    if found is None:
        raise UsageError(f"{text!r} is not a version of an SDK", fix="give a version like 2.40 or 2.51.0")
    return found


def installed_sdk() -> tuple[int, ...] | None:
    """Return the SDK version of the vendor's package or folder; None without one."""
    try:
        folder = library_folder()
    except BackendError:
        return None
    for path, pattern in ((folder / _INFO, _TOLD), (folder.parent.parent / "sdk.yaml", _SDK_TOLD)):
        try:
            match = pattern.search(path.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
        if match:
            return find_version(match[1])
    return None


def unswept() -> str | None:
    """Return a notice if the SDK's faults are unknown to xdlc; None if they are known."""
    sdk = installed_sdk()
    if sdk is None or sdk[:2] == SWEPT_SDK:
        return None
    return f"xdlc was tested with SDK {dotted(SWEPT_SDK)}, not with {dotted(sdk)}; compare the outputs"


LOG_ERROR = 1
_HARMLESS = ("unexpected GraphHtpSettings option",)  # an error line of runs that succeed, too


class VendorLog:
    """Collects log lines of the library; pass ``callback`` to logCreate."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.callback = LogCallback(self.receive)
        self._format = ctypes.CDLL(None).vsnprintf

    def receive(self, template: bytes, level: int, _time: int, arguments: int) -> None:
        """Collect a line; the arguments are those of the library's callbacks."""
        if level > LOG_ERROR:
            return
        buffer = ctypes.create_string_buffer(8192)
        self._format(buffer, c_uint64(len(buffer)), c_char_p(template), c_void_p(arguments))
        self._lines.append(buffer.value.decode(errors="replace").strip())

    def take(self) -> list[str]:
        """Return the error lines since the last call, each once."""
        lines = [line.removeprefix("<E>").strip() for line in self._lines]
        self._lines.clear()
        return list(dict.fromkeys(line for line in lines if line and not line.startswith(_HARMLESS)))
