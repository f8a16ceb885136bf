"""Frame of every tool: common options, error reports, notices, logging, signals."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

import click
from click.shell_completion import CompletionItem

from xdlc import __version__
from xdlc.cli import argv, bars, help, usage_errors, vendor_flags
from xdlc.cli.params import INPUT_FILE, MODEL, PathsOption, SourceOption, aliases
from xdlc.cli.problems import error_lines
from xdlc.cli.text import WIDTH, clean, json_parts, painted
from xdlc.errors import (
    BackendError,
    ProblemList,
    StorageError,
    UsageError,
    XdlcError,
    each_problem,
    nearest_names,
    problem_table,
)
from xdlc.options import spelling

atexit.register(gc.freeze)  # garbage of a process that ends needs no search

EXIT_INTERNAL = 70  # EX_SOFTWARE of sysexits.h
_DEBUG = "xdlc.debug"
_LEVEL = "xdlc.level"
_WORDS = "xdlc.words"
_NEXT = "xdlc.next"
_REPLACED = "xdlc.replaced"
_RESULT = "xdlc.result"
_SCHEMA = 1
"""Version of the JSON object of --json."""
_CLOSED_PIPE = 141  # 128 + SIGPIPE, as in a shell
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": WIDTH}
_version = partial(click.version_option, __version__, message="%(prog)s %(version)s")


class Tool(click.Command):
    """A command that reports every error the same way: on stderr, no traceback.

    Attributes:
        aliases: Options by the names that help does not show.
        codes: Own exit codes and their meanings, of a tool that answers a question; the highest is that of
            every error.  None: the usual ones.
    """

    def __init__(self, *words: Any, codes: Mapping[int, str] | None = None, **settings: Any) -> None:
        super().__init__(*words, **settings)
        self.codes = codes
        options = [param for param in self.params if isinstance(param, click.Option)]
        self.aliases = {word: option for option in options for word in aliases(option)}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _prepare_output(ctx)
        if ctx.resilient_parsing:  # a shell completes the line
            return super().parse_args(ctx, args)
        if "--json" in args and any(param.name == "json" for param in self.params):
            begin_json(ctx)
        with _reported(ctx):
            spread, notices = argv.understood(args, ctx)
            left = super().parse_args(ctx, list(spread))
        for text in dict.fromkeys(notices):
            notice(text)
        name, later = ctx.meta.get(argv.LATER, ("", ()))
        ctx.meta[_WORDS] = (*ctx.command_path.split(), *spread, *later)
        if later:
            ctx.meta[_NEXT] = _second(ctx, name, later)
        return left

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        has_source = any(isinstance(param, SourceOption) for param in self.params)
        files = [CompletionItem(incomplete, type="file")] if has_source else []
        return super().shell_complete(ctx, incomplete) or files

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        help.write_options(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        help.write_end(self, formatter)
        formatter.write_paragraph()
        formatter.write_text(exit_codes(self.codes))
        if str(ctx.info_name).startswith(vendor_flags.NAMES):
            formatter.write_paragraph()
            formatter.write_text(f"Meaning of the vendor's flags: xdlc compat flags {ctx.info_name}")

    def invoke(self, ctx: click.Context) -> Any:
        from xdlc.ir.files import kept_apart

        _start_logging(ctx.meta.get(_LEVEL, logging.WARNING))
        try:
            with (
                _reported(ctx),
                _warnings_for_people(),
                _stopping_in_order(),
                kept_apart(ctx.meta.get(_REPLACED, ())),
            ):
                _note_inputs(ctx)
                returned = super().invoke(ctx)
                print_json(ctx)
                return returned
        except click.exceptions.Exit:
            print_json(ctx)
            raise
        except (click.ClickException, click.Abort):
            raise
        except XdlcError as error:
            _give_up_error(ctx, error)
        except KeyboardInterrupt as interrupt:
            _give_up(ctx, *_interruption(interrupt))
        except MemoryError as error:
            _give_up_error(ctx, BackendError(f"not enough memory: {error}"))
        except Exception as error:  # the outermost edge: an error that is not an XdlcError is a bug of ours
            _give_up(
                ctx,
                f"internal error: {type(error).__name__}: {error}\n"
                f"  fix: report this bug of xdlc {__version__}, and add the output of --debug",
                EXIT_INTERNAL,
            )


def exit_codes(own: Mapping[int, str] | None = None) -> str:
    """Return exit codes as a line of the help: the usual ones with those of a tool."""
    usual: Mapping[str, str] = problem_table()["exit_codes"]
    if own:
        usual = {code: text for code, text in usual.items() if int(code) >= EXIT_INTERNAL}
        usual = {str(code): text for code, text in own.items()} | usual
    words = (f"{code} {text.partition(':')[0]}" for code, text in usual.items())
    return f"Exit codes: {', '.join(words)}."


class ToolGroup(click.Group):
    """Tools under one name, whose own usage errors read like theirs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _prepare_output(ctx)
        with _reported(ctx):
            return super().parse_args(ctx, argv.understood(args, ctx)[0])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = {name: self.get_command(ctx, name) or self for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(200)) for name, each in commands.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        help.write_end(self, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None:
            known = self.list_commands(ctx)
            meant = self.meaning(args[0]) or nearest_names(args[0], known) or f"use one of {', '.join(known)}"
            named = f"no command {args[0]!r}"
            _give_up_error(
                ctx, UsageError(named, fix=meant, code="XD204") if isinstance(meant, str) else meant
            )
        return super().resolve_command(ctx, args)

    def meaning(self, _name: str) -> UsageError | str | None:
        """Return the fix or the error for an unknown command; None without one."""
        return None


def _prepare_output(ctx: click.Context) -> None:
    """Print what the encoding lacks as escapes; choose colors by the environment."""
    if ctx.color is None and (os.environ.get("NO_COLOR") or os.environ.get("FORCE_COLOR")):
        ctx.color = not os.environ.get("NO_COLOR")
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", "") in ("strict", "surrogateescape") and hasattr(stream, "reconfigure"):
            with suppress(OSError):  # of one that was replaced below Python
                stream.reconfigure(errors="backslashreplace")


def _note_inputs(ctx: click.Context) -> None:
    """Remember the input files of the command line, which outputs must not overwrite."""
    from xdlc.ir.files import check_readable

    for param in ctx.command.params:
        if isinstance(param, PathsOption) or param.type in (INPUT_FILE, MODEL):
            given = ctx.params.get(param.name or "")
            for path in given if isinstance(given, tuple) else (given,):
                if path is not None and os.path.isfile(path):
                    check_readable(path)


@contextmanager
def _reported(ctx: click.Context) -> Iterator[None]:
    """Report errors of usage and of standard output, with flags in their texts."""
    try:
        with spelling(partial(usage_errors.spelled, ctx)):
            yield
    except BrokenPipeError:
        _stop_at_closed_pipe(ctx)
    except OSError as error:  # errors of paths are XdlcErrors: this is standard output on a full disk
        _give_up_output(ctx, error)
    except click.UsageError as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            raise
        _give_up_error(ctx, usage_errors.usage_error(error, ctx))
    except (UsageError, ProblemList) as error:
        _give_up_error(ctx, error)


def _stop_at_closed_pipe(ctx: click.Context) -> NoReturn:
    """End quietly when the reader of the output has ended, as with ``| head``."""
    _forget(sys.stdout)
    _forget(sys.stderr)
    ctx.exit(_CLOSED_PIPE)


def _give_up_output(ctx: click.Context, error: OSError) -> NoReturn:
    if error.filename is None:
        _forget(sys.stdout)
    where = error.filename or "standard output"
    _give_up_error(ctx, StorageError(error.strerror or str(error), where=where, code="XD802"))


def _forget(stream: IO[str]) -> None:
    """Discard the buffer of a stream, which Python would flush and fail."""
    with suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


@contextmanager
def _warnings_for_people() -> Iterator[None]:
    """Show Python's warnings like errors, without the line of code."""
    import warnings

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **_names: warn(str(message))
        yield


def _omit_sums(ctx: click.Context, _: click.Parameter, given: bool) -> None:
    if given:
        from xdlc.container.archive import SUMS

        token = SUMS.set(False)
        ctx.call_on_close(lambda: SUMS.reset(token))


def tool(
    name: str, *, epilog: str | None = None, codes: Mapping[int, str] | None = None
) -> Callable[[Callable[..., None]], Tool]:
    """Return a decorator that makes a function a tool with the common options.

    Args:
        epilog: Text at the end of the help.
        codes: Own exit codes of the tool; see ``Tool``.
    """

    def decorate(function: Callable[..., None]) -> Tool:
        own = getattr(function, "__click_params__", ())
        common = _common_options()[any("--json" in param.opts for param in own) :]
        for option in reversed(common):
            function = option(function)
        command = click.command(name, cls=Tool, context_settings=_SETTINGS, epilog=epilog, codes=codes)(
            function
        )
        shared = len(common)
        command.params = [*command.params[shared:], *command.params[:shared]]  # a tool's own options first
        return command

    return decorate


def group(
    name: str, *tools: Tool, cls: type[ToolGroup] = ToolGroup
) -> Callable[[Callable[[], None]], click.Group]:
    """Return a decorator that makes a function a group of tools.

    Args:
        tools: The tools, each called by the last word of its name.
    """

    def decorate(function: Callable[[], None]) -> click.Group:
        commands = {str(command.name).split()[-1]: command for command in tools}
        settings: dict[str, Any] = {"context_settings": _SETTINGS, "commands": commands}
        return _version()(click.group(name, cls=cls, **settings)(function))

    return decorate


def _common_options() -> list[Callable[[Callable[..., None]], Callable[..., None]]]:
    def remember(key: str, constant: Any) -> Callable[[click.Context, click.Parameter, bool], None]:
        def callback(ctx: click.Context, _: click.Parameter, given: bool) -> None:
            if given:
                ctx.meta[key] = constant

        return callback

    def flag(name: str, callback: Callable[[click.Context, click.Parameter, bool], None], text: str) -> Any:
        return click.option(name, is_flag=True, expose_value=False, callback=callback, help=text)

    return [
        flag("--json", _choose_json, "Print one JSON object with the result, warnings and problems."),
        click.option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            expose_value=False,
            is_eager=True,
            callback=_choose_color,
            help="Print messages in color. auto: only on a terminal.  [default: auto]",
        ),
        flag("--verbose", remember(_LEVEL, logging.DEBUG), "Log every step."),
        flag("--quiet", remember(_LEVEL, logging.ERROR), "Print only errors and warnings."),
        flag("--debug", remember(_DEBUG, True), "Print a Python traceback with each error."),
        click.option(
            "--vendor-lib",
            metavar="DIR",
            type=click.Path(exists=True, file_okay=False, resolve_path=True),
            expose_value=False,
            callback=_use_libraries,
            help="Use libQnnHtp.so from this folder of an SDK or of an unpacked onnxruntime-qnn.  [default: "
            "the folder in XDLC_VENDOR, or the installed onnxruntime-qnn]",
        ),
        flag("--no-crc", _omit_sums, "Do not write or check the CRC-32 checksums of DLC entries."),
        _version(),
        click.option(
            "--help-all",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=help.show_whole,
            help="Print help with all flags, and stop.",
        ),
    ]


def _choose_json(ctx: click.Context, _param: click.Parameter, is_set: bool) -> None:
    if not is_set:
        ctx.meta.pop(_RESULT, None)
    elif _RESULT not in ctx.meta:
        begin_json(ctx)


def _choose_color(ctx: click.Context, _param: click.Parameter, when: str | None) -> None:
    ctx.color = {"always": True, "never": False}.get(when or "", ctx.color)


def _use_libraries(ctx: click.Context, _param: click.Parameter, folder: str | None) -> None:
    if folder is not None:
        from xdlc.runtime.htp.library import using

        ctx.with_resource(using(Path(folder)))


def _second(ctx: click.Context, name: str, args: Sequence[str]) -> click.Context:
    """Return the context of the next tool; its words are checked before any work."""
    command: click.Command = import_module(f"xdlc.cli.tools.{name.removeprefix('xdlc-')}").main
    name = f"{ctx.command_path}: {name}"
    return command.make_context(name, ["--input", os.devnull, *args], obj=ctx.obj)


def run_next(path: Path) -> None:
    """Run the tool that follows on the command line on the file just written."""
    ctx = click.get_current_context()
    if _NEXT in ctx.meta:
        second: click.Context = ctx.meta[_NEXT]
        shared = (_LEVEL, _DEBUG, _WORDS, _RESULT)
        second.meta.update({key: ctx.meta[key] for key in shared if key in ctx.meta})
        second.color = ctx.color
        second.params |= {"source": path, "target_dlc": path}
        second.meta[_REPLACED] = (path,)
        with second:
            second.command.invoke(second)


def has_next() -> bool:
    """Return whether a tool runs on the file that the running one writes."""
    return _NEXT in click.get_current_context().meta


def is_quiet() -> bool:
    """Return whether the running tool prints errors only."""
    return click.get_current_context().meta.get(_LEVEL) == logging.ERROR


def command_line() -> tuple[str, ...]:
    """Return the running tool's command line by words, with our names of flags."""
    command: tuple[str, ...] = click.get_current_context().meta[_WORDS]
    return command


def begin_json(ctx: click.Context) -> None:
    """Print the result as one JSON object at the end, with its lines."""
    ctx.meta[_RESULT] = {
        "schema": _SCHEMA,
        "tool": ctx.command_path,
        "warnings": [],
        "written": [],
        "lines": [],
    }


def result(**fields: Any) -> bool:
    """Add fields to the JSON object, in place of lines; return whether there is one."""
    facts(**fields)
    content = click.get_current_context().meta.get(_RESULT)
    if content:
        content.pop("lines", None)
    return bool(content)


def facts(**fields: Any) -> None:
    """Add fields to the JSON object; call functions for their values."""
    content = click.get_current_context().meta.get(_RESULT)
    if content:
        for name, value in fields.items():
            field = value() if callable(value) else value
            content[name] = [*field] if isinstance(field, tuple) else field


def _add(key: str, text: str) -> bool:
    """Add a text to a list of the JSON object, if one is printed; return whether."""
    content = click.get_current_context().meta.get(_RESULT)
    if content and (key != "lines" or key in content):
        content.setdefault(key, []).append(text)
    return content is not None


def print_json(ctx: click.Context, error: XdlcError | None = None) -> None:
    """Print the object of --json once, if the call has this flag."""
    content = ctx.meta.get(_RESULT)
    if content:
        names = ("code", "problem", "where", "fix", "node", "op", "line")
        problems = each_problem(error) if error is not None else ()
        rows = [{name: getattr(problem, name) for name in names} for problem in problems]
        content["problems"] = [*content.get("problems", ()), *rows]
        files = filter(os.path.isfile, content.get("written", ()))
        content["sizes"] = {path: os.path.getsize(path) for path in files}
        printed = dict(content)
        content.clear()  # a tool that runs then has the same
        sys.stdout.writelines(json_parts(printed))
        click.echo()


def warn(text: str) -> None:
    """Print a warning on stderr, with ``--quiet`` too."""
    ctx = click.get_current_context()
    _print_beside(f"{ctx.command_path}: warning: {text}", "warnings", text)


def show(text: str) -> None:
    """Print a line of the result, unless only errors are wanted."""
    if not is_quiet():
        output(text)


def output(text: str, *, end: str = "\n") -> None:
    """Print a line of the result, with ``--quiet`` too."""
    if not _add("lines", text):
        with bars.undisturbed():
            click.echo("\n".join(clean(line) for line in text.split("\n")) + end, nl=False)


def written(path: Path) -> None:
    """Print that a file was written."""
    if not _add("written", str(path)):
        show(f"written: {path}")


def notice(text: str) -> None:
    """Print a notice on stderr, unless only errors are wanted."""
    if not is_quiet():
        _print_beside(f"notice: {text}".replace("\n", "\n    "), "notices", text)


def note(text: str) -> None:
    """Print a note as a notice, or as a warning if it starts with that word."""
    words = text.removeprefix("warning: ")
    (notice if words == text else warn)(words)


def _print_beside(message: str, key: str, text: str) -> None:
    """Print a message on stderr, and add its text to the JSON object."""
    _add(key, text)
    with bars.undisturbed():
        click.echo(_painted(message), err=True)


def _painted(text: str) -> str:
    return "\n".join(painted(clean(line)) for line in text.split("\n"))


def _give_up_error(ctx: click.Context, error: XdlcError) -> NoReturn:
    head = f"error[{error.code}]: " if error.code else "error: "
    own = getattr(ctx.command, "codes", None)
    code = max(own) if own else error.exit_code
    _give_up(ctx, head + "\n".join(error_lines(error)), code, error)


def _give_up(ctx: click.Context, message: str, code: int, error: XdlcError | None = None) -> NoReturn:
    if ctx.meta.get(_DEBUG):
        import traceback

        traceback.print_exc()
    with suppress(OSError):  # the exit code shows that it failed
        click.echo(_painted(f"{ctx.command_path}: {message}"), err=True, color=ctx.color)
        print_json(ctx, error or XdlcError(message))
    ctx.exit(code)


class _LogHandler(logging.StreamHandler[Any]):
    """A log handler that keeps the progress line intact."""

    def emit(self, record: logging.LogRecord) -> None:
        with bars.undisturbed():
            super().emit(record)


def _start_logging(level: int) -> None:
    logger = logging.getLogger("xdlc")
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
    handler = _LogHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False


_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def _stopping_in_order() -> Iterator[None]:
    """End the tool on signals like on Ctrl-C, and remove unfinished files."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A signal that is ignored stays ignored: nohup relies on it.
    taken = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _interruption(interrupt: KeyboardInterrupt) -> tuple[str, int]:
    """Return the message for an interrupt, and the exit code that shells expect."""
    number = signal.Signals(*interrupt.args or (signal.SIGINT,))
    return "interrupted" if number == signal.SIGINT else f"stopped by {number.name}", 128 + number


def _stop(number: int, _: object) -> NoReturn:
    for other in _SIGNALS:
        signal.signal(other, signal.SIG_IGN)  # another one would disturb the cleaning up
    raise KeyboardInterrupt(number)
