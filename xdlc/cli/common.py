"""What all tools share: options, error reports, logging, progress."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

from xdlc import __version__
from xdlc.cli import stopping
from xdlc.cli.problems import error_lines
from xdlc.cli.text import WIDTH, clean
from xdlc.errors import BackendError, StorageError, UsageError, XdlcError

EXIT_INTERNAL = 70  # EX_SOFTWARE of sysexits.h
_DEBUG = "xdlc.debug"
_LEVEL = "xdlc.level"


class Tool(click.Command):
    """A command that reports every error the same way, on stderr and without a traceback."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _spread(args, self.params))

    def invoke(self, ctx: click.Context) -> Any:
        _start_logging(ctx.meta.get(_LEVEL, logging.WARNING))
        try:
            with _warnings_for_people(ctx.command_path), stopping.in_order():
                return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise
        except XdlcError as error:
            _give_up(ctx, "error: " + "\n".join(error_lines(error)), error.exit_code)
        except KeyboardInterrupt as interrupt:
            _give_up(ctx, *stopping.report(interrupt))
        except MemoryError as error:
            _give_up(ctx, f"error: not enough memory: {error}", BackendError.exit_code)
        except OSError as error:  # paths have been dealt with: what is left is standard output on a full disk
            where = error.filename or "standard output"
            _give_up(ctx, f"error: {where}: {error.strerror or error}", StorageError.exit_code)
        except Exception as error:  # the outermost edge: whatever arrives here is a bug of ours
            _give_up(
                ctx,
                f"internal error: {type(error).__name__}: {error}\n"
                f"  fix: this is a bug in xdlc {__version__}; please report it with the output of --debug",
                EXIT_INTERNAL,
            )


def _spread(args: Sequence[str], params: Sequence[click.Parameter]) -> list[str]:
    """Return arguments in which an option stands before each of the files that follow it as words."""
    lists = {word for param in params if isinstance(param, PathsOption) for word in param.opts}
    found: list[str] = []
    option = ""
    for index, arg in enumerate(args):
        follows = bool(option) and not arg.startswith("-")
        if follows and args[index - 1] != option:
            found.append(option)
        found.append(arg)
        option = arg if arg in lists else option if follows else ""
    return found


@contextmanager
def _warnings_for_people(command: str) -> Iterator[None]:
    """Show Python's warnings as a tool shows errors: without the line of code that they come from."""
    import warnings

    def show(message: Warning | str, *_: Any, **_names: Any) -> None:
        lines = f"{command}: warning: {message}".split("\n")
        click.echo("\n".join(clean(line) for line in lines), err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def tool(name: str, *, epilog: str | None = None) -> Callable[[Callable[..., None]], Tool]:
    """Return a decorator that makes a function the tool ``name``, with the options all tools have."""

    def decorate(function: Callable[..., None]) -> Tool:
        for option in reversed(_common_options()):
            function = option(function)
        settings = {"help_option_names": ["-h", "--help"], "max_content_width": WIDTH}
        command = click.command(name, cls=Tool, context_settings=settings, epilog=epilog)(function)
        shared = len(_common_options())
        command.params = [*command.params[shared:], *command.params[:shared]]  # a tool's own options first
        return command

    return decorate


def _common_options() -> list[Callable[[Callable[..., None]], Callable[..., None]]]:
    def remember(key: str, constant: Any) -> Callable[[click.Context, click.Parameter, bool], None]:
        def callback(ctx: click.Context, _: click.Parameter, given: bool) -> None:
            if given:
                ctx.meta[key] = constant

        return callback

    def flag(name: str, key: str, constant: Any, text: str) -> Any:
        return click.option(
            name, is_flag=True, expose_value=False, callback=remember(key, constant), help=text
        )

    return [
        flag("--verbose", _LEVEL, logging.DEBUG, "Log every step."),
        flag("--quiet", _LEVEL, logging.ERROR, "Log errors only."),
        flag("--debug", _DEBUG, True, "Show a traceback with an error."),
        click.version_option(__version__, message="%(prog)s %(version)s"),
    ]


def is_quiet() -> bool:
    """Return whether the user asked the running tool for errors only."""
    return click.get_current_context().meta.get(_LEVEL) == logging.ERROR


def _give_up(ctx: click.Context, message: str, code: int) -> NoReturn:
    if ctx.meta.get(_DEBUG):
        import traceback

        traceback.print_exc()
    shown = "\n".join(clean(line) for line in message.split("\n"))
    click.echo(f"{ctx.command_path}: {shown}", err=True)
    ctx.exit(code)


def _start_logging(level: int) -> None:
    logger = logging.getLogger("xdlc")
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False


def _draw_nothing(_done: int) -> None:
    pass


@contextmanager
def progress(title: str, unit: str, total: int) -> Iterator[Callable[[int], None]]:
    """Give a callback for the number of steps done, which draws a bar: on a terminal, after a second."""
    if is_quiet() or not sys.stderr.isatty():
        yield _draw_nothing
        return
    from tqdm import tqdm

    with tqdm(desc=title, unit=unit, total=total, delay=1, leave=False, file=sys.stderr) as bar:

        def advance(done: int) -> None:
            bar.update(done - bar.n)

        yield advance


Tell = Callable[[str, str], None]


@contextmanager
def outcomes(title: str, unit: str, total: int) -> Iterator[tuple[Tell, dict[str, str]]]:
    """Give a callback for parts of the work and what becomes of them, and what it was told last of each.

    ``started`` is no outcome yet.  A bar on a terminal shows the number of outcomes, the latest one, and
    what is under way.
    """
    found: dict[str, str] = {}
    running: dict[str, None] = {}
    bar: Any = None
    if not is_quiet() and sys.stderr.isatty():
        from tqdm import tqdm

        bar = tqdm(desc=title, unit=unit, total=total, leave=False, file=sys.stderr)

    def tell(part: str, state: str) -> None:
        if state == "started":
            running[part] = None
        else:
            found[part] = state
            running.pop(part, None)
        if bar is not None:
            latest = [f"{part} {state}"] if state != "started" else []
            now = [f"{', '.join(running)} under way"] if running else []
            bar.set_postfix_str("; ".join([*latest, *now]), refresh=False)
            bar.n = len(found)
            bar.refresh()

    try:
        yield tell, found
    finally:
        if bar is not None:
            bar.close()


def _draw_no_steps(_title: str, _done: int, _total: int) -> None:
    pass


@contextmanager
def steps() -> Iterator[Callable[[str, int, int], None]]:
    """Give a callback for the title of a part of the work, steps done and all steps; draws a bar a part."""
    if is_quiet() or not sys.stderr.isatty():
        yield _draw_no_steps
        return
    from tqdm import tqdm

    bars: dict[str, Any] = {}

    def advance(title: str, done: int, total: int) -> None:
        if title not in bars:
            for bar in bars.values():
                bar.close()
            bars[title] = tqdm(desc=title, total=total, delay=1, leave=False, file=sys.stderr)
        bars[title].update(done - bars[title].n)

    try:
        yield advance
    finally:
        for bar in bars.values():
            bar.close()


@contextmanager
def storage_errors(path: str | os.PathLike[str], verb: str = "written") -> Iterator[None]:
    """Turn the operating system's refusals into a StorageError that names ``path``."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot be {verb}: {error.strerror or error}",
            where=str(path),
            fix="check the path, its permissions and the free space",
        ) from error


def check_target(path: Path, *, keep: Path | None = None) -> Path:
    """Return the path of a file to be written, after a look at whether it can be.

    Work of minutes should not end in an error that was there from the start.

    Args:
        path: The file to be written.
        keep: A file that it must not replace.

    Raises:
        UsageError: If ``path`` is the file to keep.
        StorageError: If the folder is missing or not writable, or the path is a folder or a device.
    """
    with storage_errors(path):
        if not path.parent.is_dir():
            raise StorageError(
                "cannot be written: its folder does not exist", where=str(path), fix=f"mkdir -p {path.parent}"
            )
        if path.is_dir():
            raise StorageError("cannot be written: it is a folder", where=str(path), fix="name a file")
        if path.exists() and not path.is_file():
            raise StorageError("cannot be written: it is no regular file", where=str(path), fix="name a file")
        if keep is not None and path.exists() and keep.exists() and path.samefile(keep):
            raise UsageError(
                "the output would replace the input", where=str(path), fix="choose another output path"
            )
    check_folder(path.parent, path)
    return path


def check_folder(folder: Path, path: Path) -> None:
    """Check that files can be made in a folder.

    Args:
        folder: The folder.
        path: What is to be written there, for the message.

    Raises:
        StorageError: If they cannot.
    """
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(
            "cannot be written: no permission to write to its folder",
            where=str(path),
            fix="choose another output path",
        )


def derived_path(source: Path, suffix: str) -> Path:
    """Return the default output beside ``source``.

    Example:
        >>> derived_path(Path("nets/a.onnx"), "_quantized.dlc").as_posix()
        'nets/a_quantized.dlc'
    """
    return source.with_name(source.stem + suffix)


def names(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Parse names separated by commas or blanks."""
    return tuple((value or "").replace(",", " ").split())


def distinct_names(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Parse a repeatable option whose values are names separated by commas.

    Raises:
        click.BadParameter: If a name is empty or comes twice.
    """
    found = [name for given in value for name in given.split(",")]
    for name in found:
        if not name:
            raise click.BadParameter("a name is empty")
        if found.count(name) > 1:
            raise click.BadParameter(f"{name!r} is given twice")
    return tuple(found)


def dims_by_name(
    _ctx: click.Context, _param: click.Parameter, value: tuple[tuple[str, str], ...]
) -> dict[str, tuple[int, ...]]:
    """Parse pairs of a name and extents separated by commas.

    Raises:
        click.BadParameter: If an extent is no whole number of at least 0, or a name comes twice.
    """
    return dims(value)


def dims(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[int, ...]]:
    """Return extents by name from pairs of a name and extents separated by commas.

    Raises:
        click.BadParameter: If an extent is no whole number of at least 0, or a name comes twice.
    """
    found: dict[str, tuple[int, ...]] = {}
    for name, extents in pairs:
        parts = [part.strip() for part in extents.split(",")]
        if not all(part.isascii() and part.isdecimal() for part in parts):
            raise click.BadParameter(f"{extents!r} for {name!r} is not a list of extents like 1,3,224,224")
        if name in found:
            raise click.BadParameter(f"{name!r} is given twice")
        found[name] = tuple(int(part) for part in parts)
    return found


def notice(text: str) -> None:
    """Tell the user what is good to know and no error, unless only errors are wanted."""
    if not is_quiet():
        click.echo(f"notice: {clean(text)}", err=True)


class PathsOption(click.Option):
    """A repeatable option of files, which takes several at once: with commas or as words of their own.

    A value that names a file as a whole is one, whatever it contains.
    """

    def __init__(self, words: Sequence[str], **settings: Any) -> None:
        settings |= {"multiple": True, "callback": paths, "metavar": "FILE,.."}
        super().__init__(words, **settings)


def paths(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Parse a repeatable option whose values are files separated by commas.

    Raises:
        click.BadParameter: If a path is empty.
    """
    found: list[str] = []
    for given in value:
        found += [given] if Path(given).is_file() else [part.strip() for part in given.split(",")]
    if not all(found):
        raise click.BadParameter("a path is empty")
    return tuple(found)


class FilePath(click.Path):
    """A path that is not empty."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not os.fspath(value):
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


EXTENT = click.IntRange(1, 2**32 - 1)
INPUT_FILE = FilePath(dir_okay=False, path_type=Path)
OUTPUT_FILE = FilePath(path_type=Path)
DLC_VERSION = click.option(
    "--dlc_version",
    type=click.Choice(["4.1", "4.0", "3", "3.0"]),
    default="4.1",
    show_default=True,
    help="Format of the result. 4.0 keeps the data inside the index, as Netron can show it; up to 2 GiB."
    " 3 is that of SNPE 1, for layers, with their HTA sections in its own records.",
)
