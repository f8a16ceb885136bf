"""One HTML file that opens DLCs in a browser: the viewer, Python (Pyodide) and xdlc.

``python -m scripts.browser -o open-dlc.html``; the documentation site has the file.  It holds all that it
needs as text, so it works from a server and from a folder alike, and its policy forbids every request.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from xdlc.page import assemble
from xdlc.view.content import script, style

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PYODIDE = "314.0.7"
SHA256 = "66b7949e5a0cba2250b586d7e368bf12fb482800748d182c4618254b685ffaa0"
FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
"""Files of the package that start Python."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def browser_page(pyodide: Path, numpy_wheel: Path | None = None) -> str:
    """Return the page.

    Args:
        pyodide: Folder with the files of Pyodide.
        numpy_wheel: numpy for Pyodide.  Default: the page shows no statistics of weights.
    """
    files = {name: (pyodide / name).read_bytes() for name in FILES} | {"xdlc.zip": package()}
    if numpy_wheel is not None:
        files[numpy_wheel.name] = numpy_wheel.read_bytes()
    return assemble(
        (HERE / "open.html").read_text("utf-8"),
        style=style() + (HERE / "open.css").read_text("utf-8"),
        script=script() + (HERE / "open.js").read_text("utf-8"),
        data="\n".join(_texts(files)),
        kind="xdlc",
        name="open a DLC",
        summary=["The page needs JavaScript."],
        policy=" blob: 'wasm-unsafe-eval'; worker-src blob:; connect-src 'none'",
    )


def _texts(files: dict[str, bytes]) -> Iterator[str]:
    """Yield an element of the page for each file."""
    for name, content in files.items():
        packed = base64.b64encode(gzip.compress(content, 9, mtime=0)).decode("ascii")
        yield f'<script type="application/gzip" data-file id="{name}">{packed}</script>'
    for id, name in (("worker", "worker.js"), ("python", "reader.py")):
        yield f'<script type="text/plain" id="{id}">{(HERE / name).read_text("utf-8")}</script>'


def package() -> bytes:
    """Return xdlc as a zip file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted((ROOT / "xdlc").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                info = zipfile.ZipInfo(path.relative_to(ROOT).as_posix(), _EPOCH)
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, path.read_bytes())
    return buffer.getvalue()


def fetched(folder: Path) -> Path | str:
    """Return a folder with the files of Pyodide from npm, or why there is none.

    Args:
        folder: Where the files of earlier calls are.
    """
    target = folder / PYODIDE
    if all((target / name).is_file() for name in FILES):
        return target
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    target.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", "--silent", f"pyodide@{PYODIDE}"]
    try:
        done = subprocess.run(command, cwd=target, capture_output=True, text=True, timeout=90, check=False)
    except subprocess.TimeoutExpired:
        return "npm does not answer"
    archive = target / f"pyodide-{PYODIDE}.tgz"
    if done.returncode or not archive.is_file():
        return f"npm has no pyodide {PYODIDE}: {done.stderr.strip()[-200:]}"
    content = archive.read_bytes()
    archive.unlink()
    if hashlib.sha256(content).hexdigest() != SHA256:
        return f"npm sent another pyodide {PYODIDE} than xdlc expects"
    with tarfile.open(fileobj=io.BytesIO(content)) as members:
        for name in FILES:
            member = members.extractfile(f"package/{name}")
            assert member is not None, name
            (target / name).write_bytes(member.read())
    return target
