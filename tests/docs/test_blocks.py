"""Code blocks of pages run, and print what the pages show."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from tests.docs.blocks import REASONS, ROOT, Command, Reader, blocks, commands, is_like, make_folder

PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in (
        ROOT / "README.md",
        ROOT / "docs" / "index.md",
        ROOT / "docs" / "troubleshooting.md",
        *sorted((ROOT / "docs" / "start").glob("*.md")),
        *sorted((ROOT / "docs" / "guides").glob("*.md")),
    )
    if path.exists()
]

PAGE = """\
Text.

<!-- setup: touch made -->

```console
$ ls ma* \\
    | sort
made
$ echo 12
```

<!-- not run: phone -->
```console
$ adb push net.dlc /data/local/tmp
```

1. A list:

   <!-- file: metric.py -->

   ```python
   def metric():
       return 1
   ```
"""


def test_blocks_have_their_notes_and_lines():
    setup, run, skipped, file = blocks(PAGE)
    assert (setup.language, setup.text, setup.line) == ("setup", "touch made", 3)
    assert commands(run) == [Command(6, "ls ma* \\\n    | sort", ["made"]), Command(9, "echo 12", [])]
    assert skipped.notes == {"not run": "phone"}
    assert file.notes == {"file": "metric.py"}
    assert file.text == "def metric():\n    return 1"


def test_a_page_runs_in_its_folder(tmp_path):
    page = tmp_path / "page.md"
    text = PAGE + "```python\nimport metric\nprint(metric.metric())\n```\n"
    page.write_text(text + "<!-- exit: 3 -->\n```console\n$ python -c 'import metric' && exit 3\n```\n")
    reader = Reader(page, tmp_path)
    assert list(reader.read()) == []
    assert reader.skipped == ["phone"]


@pytest.mark.parametrize(
    "block",
    ["console\n$ false", "console\n$ echo 1\n2", "python\n1 / 0", "python\nimport os\nos._exit(1)"],
)
def test_a_block_that_fails_is_reported_with_its_line(tmp_path, block):
    page = tmp_path / "page.md"
    page.write_text(f"Text.\n\n```{block}\n```\n")
    (failure,) = Reader(page, tmp_path).read()
    assert failure.place == f"{page}:4"


def test_a_console_block_begins_with_a_command():
    (block,) = blocks("```console\nxdlc info\n```")
    with pytest.raises(ValueError, match="line 2"):
        commands(block)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a\nb", "a\nb\n"),
        ("a\n...\nd", "a\nb\nc\nd"),
        ("...\nd", "d"),
        ("a\n...", "a"),
        ("written: ...net.dlc", "written: /tmp/net.dlc"),
        ("a   b", "a b"),
        ("32.4 dB, top-1 equal in 66.7%", "32.9 dB, top-1 equal in 66.0%"),
        ("cache of 184,320 bytes, compiled", "cache of 184324 bytes, compiled"),
        ("done in 1.5 s", "done in 20 s"),
    ],
)
def test_what_is_printed_may_differ(shown, printed):
    assert is_like(shown.split("\n"), printed.split("\n"))


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a\nb", "a"),
        ("a", "a\nb"),
        ("a\n...\nd", "a\nb"),
        ("32.4 dB", "34.4 dB"),
        ("184320 bytes", "258048 bytes"),
        ("43 ops", "44 ops"),
        ("v73 of sm8550", "v75 of sm8550"),
    ],
)
def test_what_is_printed_may_not_differ(shown, printed):
    assert not is_like(shown.split("\n"), printed.split("\n"))


@pytest.mark.parametrize("page", PAGES)
def test_notes_and_languages_of_a_page_have_a_meaning(page):
    text = (ROOT / page).read_text()
    for block in blocks(text):
        assert block.language, f"{page}:{block.line}: a block has a language"
        assert block.notes.get("not run", REASONS[0]) in REASONS, f"{page}:{block.line}"
        if block.language == "console":
            commands(block)
    indented = [line for line in text.split("\n") if line.startswith("    $ ")]
    assert indented == [], "commands are in blocks with ```console"


@pytest.fixture(scope="session")
def demo(tmp_path_factory) -> Path:
    return make_folder(tmp_path_factory.mktemp("demo"))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_a_page_run(page, demo, tmp_path):
    if importlib.util.find_spec("onnxruntime_qnn") is None:
        pytest.skip("needs the vendor's package: pip install 'xdlc[htp]'")
    folder = tmp_path / "reader"
    shutil.copytree(demo, folder)
    assert list(map(str, Reader(ROOT / page, folder).read())) == []
