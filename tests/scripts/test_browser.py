"""The page that opens DLCs, as a file: its parts and its policy."""

import base64
import gzip
import hashlib
import io
import re
import zipfile
from pathlib import Path

import pytest

from scripts import browser, docs
from tests.support.pages import Page


@pytest.fixture
def pyodide(tmp_path):
    for name in browser.FILES:
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def content(text, name):
    packed = re.search(rf'data-file id="{re.escape(name)}">([A-Za-z0-9+/=]+)</script>', text)[1]
    return gzip.decompress(base64.b64decode(packed))


def test_the_page_has_each_file_and_forbids_requests(pyodide, tmp_path):
    (tmp_path / "numpy-2.whl").write_bytes(b"numpy")
    text = browser.browser_page(pyodide, tmp_path / "numpy-2.whl")
    assert content(text, "pyodide.asm.wasm") == b"pyodide.asm.wasm"
    assert content(text, "numpy-2.whl") == b"numpy"
    assert content(text, "xdlc.zip") == browser.package()
    page = Page(text)
    assert page.open == []
    policy = page.only("meta", **{"http-equiv": "Content-Security-Policy"})["content"]
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe-inline" not in policy
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert not any({"src", "href"} & set(attrs) for _, attrs in page.elements)


def test_the_same_files_make_the_same_page(pyodide):
    assert browser.browser_page(pyodide) == browser.browser_page(pyodide)


def test_the_package_has_what_the_page_imports():
    names = zipfile.ZipFile(io.BytesIO(browser.package())).namelist()
    assert {"xdlc/__init__.py", "xdlc/view/page/app.js", "xdlc/api/viewing.py"} <= set(names)
    assert not any("__pycache__" in name for name in names)


def test_without_npm_there_is_a_reason_instead(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "npm" in browser.fetched(tmp_path / "pyodide")


@pytest.mark.parametrize("answer", ["exit 1", "touch pyodide-$VERSION.tgz"])
def test_an_answer_of_npm_that_is_not_pyodide_is_refused(tmp_path, monkeypatch, answer):
    program = tmp_path / "npm"
    program.write_text(f"#!/bin/sh\nVERSION={browser.PYODIDE}\n{answer}\n".replace("touch ", ": > "))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert isinstance(browser.fetched(tmp_path / "pyodide"), str)
    assert isinstance(browser.fetched(tmp_path / "pyodide"), str)


def test_the_guide_links_the_page_where_the_site_has_it():
    assert "<a " not in docs.pages()[docs.BROWSER_GUIDE]
    assert f'<a href="../{docs.BROWSER_PAGE}">' in docs.pages(has_browser_page=True)[docs.BROWSER_GUIDE]
    assert Path(docs.DOCS / docs.BROWSER_GUIDE).exists()
