"""``xdlc-llm``: language models from a checkpoint to answers."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xdlc.cli import bars, params, text
from xdlc.cli.tool import group, notice, output, result, show, tool, written
from xdlc.errors import UsageError
from xdlc.options import DEFAULT_SOC, spell
from xdlc.options.language_models import ENGINES, BuildOptions

if TYPE_CHECKING:
    from xdlc.llm.bundle import Bundle
    from xdlc.llm.running import Answer

BUNDLE = params.FilePath(file_okay=False, path_type=Path)
_BUNDLE = params.source("BUNDLE", "Use the bundle in this folder.", type=BUNDLE)
_FOLDER = params.output(
    "Write the bundle to this folder.", metavar="FOLDER", name="folder", type=BUNDLE, required=True
)
_SOC = click.option("--soc", metavar="SOC", help="Emulate this SoC.  [default: the first SoC of the bundle]")
_EVALUATED = ("float", "host", "htp")


def _most_tokens(default: int, text: str) -> params.Decorator:
    """Return the flag of the longest answer."""
    return click.option(
        "--max-new-tokens", type=click.IntRange(1), default=default, show_default=True, help=text
    )


_SAMPLING = (
    click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default="auto",
        show_default=True,
        help="Choose the engine. genie runs the vendor's Genie on an emulated SoC. htp emulates the SoC "
        "without Genie. host computes on this machine; float does too, without rounding. auto uses genie "
        "if Genie is installed, else host.",
    ),
    _SOC,
    _most_tokens(256, "Generate at most this many tokens for an answer."),
    click.option(
        "--temperature",
        type=params.NumberRange(0),
        default=0.0,
        show_default=True,
        help="Divide the logits by this number: answers vary more with a higher number. 0 always chooses "
        "the likeliest token.",
    ),
    click.option(
        "--top-k",
        type=click.IntRange(0),
        default=0,
        help="Choose each token among this many likeliest tokens.  [default: all tokens]",
    ),
    click.option(
        "--top-p",
        type=params.NumberRange(0, 1, min_open=True),
        default=1.0,
        show_default=True,
        help="Choose each token among the likeliest tokens whose probabilities add up to this number. 1 "
        "means all tokens.",
    ),
    click.option("--profile", is_flag=True, help="Print the time of each answer on this machine."),
    click.option(
        "--seed",
        type=click.IntRange(0),
        default=42,
        show_default=True,
        help="Start random numbers from this seed.",
    ),
)


def _splits(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | str | None:
    """Parse a number of parts, or ``auto``."""
    if value is None or value == "auto":
        return value
    if not (value.isascii() and value.isdecimal() and 0 < len(value) < 5):
        raise params.BadValue(f"{value!r} is not a number of parts", "write auto, or a number like 4")
    return int(value)


def _contexts(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """Parse lengths of contexts."""
    return None if value is None else tuple(_ids(value, "context", "512,2048"))


@tool("xdlc-llm build")
@params.source("MODEL", "Read this checkpoint or exported model.", type=params.MODEL)
@_FOLDER
@params.flags_of(
    BuildOptions,
    without=("executor",),
    settings={
        "context": {"type": str, "callback": _contexts},
        "splits": {"type": str, "callback": _splits},
    },
)
def build(source: Path, folder: Path, **options: Any) -> None:
    """Build a bundle from a Hugging Face folder, a GGUF file or an exported model.

    An exported model is a .pt2 file, an .onnx file or a DLC. xdlc executes no code of the model. If a build
    stops early, run the command again: xdlc continues the build.
    """
    from xdlc.llm.building import build as built

    with bars.steps("reading", "step") as step:
        bundle = built(source, folder, notify=notice, step=step, **params.stated(options))
    for check in bundle.facts.checks:
        show(f"checked: {check}")
    written(bundle.folder)


@tool("xdlc-llm run")
@_BUNDLE
@click.option("--prompt", metavar="TEXT", help="Continue this text.")
@click.option("--tokens", metavar="ID,ID..", help="Continue these token ids, and print ids.")
@params.all_of(*_SAMPLING)
def run(source: Path, prompt: str | None, tokens: str | None, max_new_tokens: int, **options: Any) -> None:
    """Continue a text or token ids."""
    if (prompt is None) == (tokens is None):
        raise UsageError("pass a text or token ids", fix=f"add {spell('prompt')} or {spell('tokens')}")
    from xdlc.llm.bundle import read_bundle
    from xdlc.llm.running import begun, tokenizer_of

    bundle = read_bundle(source)
    if tokens is not None:
        with _answering(bundle, options) as ask:
            for token in ask(_ids(tokens), max_new_tokens):
                output(str(token))
        return
    with tokenizer_of(bundle) as tokenizer, _answering(bundle, options) as ask:
        begin = begun(tokenizer.encode(prompt or ""), bundle.facts)
        _stream(tokenizer.pieces(ask(begin, max_new_tokens)))


@tool("xdlc-llm chat")
@_BUNDLE
@click.option("--system", metavar="TEXT", help="Begin the conversation with this system message.")
@params.all_of(*_SAMPLING)
def chat(source: Path, system: str | None, max_new_tokens: int, **options: Any) -> None:
    """Talk to a language model: each line of standard input is a message."""
    from xdlc.llm.bundle import read_bundle
    from xdlc.llm.running import conversation, tokenizer_of

    bundle = read_bundle(source)
    messages = [{"role": "system", "content": system}] if system is not None else []
    with tokenizer_of(bundle) as tokenizer, _answering(bundle, options) as ask:
        for line in _lines():
            messages.append({"role": "user", "content": line})
            prompt = conversation(messages, tokenizer, bundle.facts, max_new_tokens, notice)
            content = _stream(tokenizer.pieces(ask(prompt, max_new_tokens)))
            messages.append({"role": "assistant", "content": content})


@tool("xdlc-llm eval")
@_BUNDLE
@click.option(
    "--text", "listing", type=params.INPUT_FILE, required=True, help="Evaluate on this text file in UTF-8."
)
@click.option(
    "--engine",
    "engines",
    type=click.Choice(_EVALUATED),
    multiple=True,
    help="Evaluate this engine: float, host or htp. Repeatable.  [default: float and host]",
)
@click.option("--reference", type=BUNDLE, help="Compare with this bundle of float weights, on this machine.")
@_SOC
@click.option(
    "--window",
    type=click.IntRange(2),
    metavar="N",
    help="Divide the text into windows of this many tokens.  [default: the context of the bundle]",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(2),
    default=4096,
    show_default=True,
    help="Use at most this many tokens of the text.",
)
def evaluate(
    source: Path,
    listing: Path,
    engines: tuple[str, ...],
    reference: Path | None,
    soc: str | None,
    window: int | None,
    max_tokens: int,
) -> None:
    """Print perplexities of engines on a text, and how often their tokens agree."""
    from xdlc.llm.bundle import read_bundle
    from xdlc.llm.evaluation import evaluate as measured
    from xdlc.llm.running import check_tokens, runner_of, tokenizer_of
    from xdlc.llm.tokenizer import read_text

    bundle = read_bundle(source)
    with tokenizer_of(bundle) as tokenizer:
        tokens = tokenizer.encode(read_text(listing), special=False)[:max_tokens]
    cases = [(name, bundle, name) for name in engines or ("float", "host")]
    if reference is not None:
        cases.insert(0, ("reference", read_bundle(reference), "host"))
    window = window or min(evaluated.facts.context for _, evaluated, _ in cases)
    rows: list[tuple[str, ...]] = []
    first = None
    for title, evaluated, engine in cases:
        check_tokens(tokens, evaluated)
        with (
            bars.steps("evaluating", "token") as step,
            runner_of(evaluated, engine, soc=soc, notify=notice) as runner,
        ):
            result = measured(runner, tokens, window=window, bos=bundle.facts.bos, step=step)
        first = first or result
        worst = max(result.perplexities)
        same = f"{100 * result.equality(first):.1f} %"
        rows.append((title, f"{result.perplexity:.4f}", f"{result.ratio(first):.4f}", same, f"{worst:.4f}"))
    show(f"{len(tokens)} tokens of {listing}; ratio and equal compare each engine with {rows[0][0]}")
    for line in text.table(
        ("engine", "perplexity", "ratio", "equal", "worst window"), rows, (12, 12, 12, 12)
    ):
        show(line)


def _ids(text: str, option: str = "tokens", example: str = "1,2,3") -> list[int]:
    words = text.replace(",", " ").split()
    if not words or not all(word.isascii() and word.isdecimal() and len(word) < 10 for word in words):
        raise UsageError("are not whole numbers", where=spell(option), fix=f"write {spell(option, example)}")
    return [int(word) for word in words]


@contextmanager
def _answering(bundle: Bundle, options: Any) -> Iterator[Answer]:
    from xdlc.llm.generation import Sampling
    from xdlc.llm.running import opened

    engine, soc, is_timed = (options.pop(name) for name in ("engine", "soc", "profile"))
    ask: Answer
    with ExitStack() as stack:
        with bars.steps("loading"):
            sampling = Sampling(**options)
            ask = stack.enter_context(opened(bundle, engine, soc=soc, sampling=sampling, notify=notice))
        yield _timed(ask) if is_timed else ask


def _timed(ask: Answer) -> Answer:
    """Return a function that answers, and prints how long that took."""

    def answer(prompt: Sequence[int], most: int) -> Iterator[int]:
        begin, first, count = time.monotonic(), 0.0, 0
        for token in ask(prompt, most):
            first, count = first or time.monotonic() - begin, count + 1
            yield token
        rest = time.monotonic() - begin - first
        rate = f", then {(count - 1) / rest:.3g} tokens a second" if count > 1 and rest else ""
        notice(f"the prompt has {len(prompt)} tokens; the first new token took {first:.3g} s{rate}")

    return answer


def _lines() -> Iterator[str]:
    """Yield lines of standard input that are not empty, with a prompt on a terminal."""
    while True:
        if sys.stdin.isatty():
            click.echo("> ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.strip()


def _stream(pieces: Iterator[str]) -> str:
    """Print an answer as it comes; return it."""
    parts = []
    for piece in pieces:
        output(piece, end="")
        parts.append(piece)
    output("")
    result(text="".join(parts))
    return "".join(parts)


@tool("xdlc-llm check")
@_BUNDLE
@click.option("--soc", metavar="SOC", help="Emulate this SoC.  [default: all SoCs of the bundle]")
@_most_tokens(16, "Generate this many tokens.")
def check(source: Path, soc: str | None, max_new_tokens: int) -> None:
    """Compare tokens of the vendor's runtime with tokens of the emulation."""
    from xdlc.llm.bundle import read_bundle
    from xdlc.llm.running import agreement

    bundle = read_bundle(source)
    for name in [soc] if soc or not bundle.targets else bundle.targets:
        with bars.steps("generating"):
            show(agreement(bundle, name, count=max_new_tokens))


@tool("xdlc-llm encoder")
@params.DLC
@_FOLDER
@click.option(
    "--tokenizer",
    type=params.INPUT_FILE,
    required=True,
    help="Use this tokenizer.json of the model.",
)
@click.option(
    "--soc",
    "--target",
    "targets",
    multiple=True,
    callback=params.names,
    metavar="SOC,SOC..",
    help=f"Compile for this SoC. Repeatable.  [default: {DEFAULT_SOC}]",
)
def encoder(source: Path, folder: Path, tokenizer: Path, targets: tuple[str, ...]) -> None:
    """Build a bundle of a text encoder, for the vendor's tool GenieEmbedding."""
    from xdlc.container import load
    from xdlc.llm.encoder import build_encoder

    with bars.steps("compiling"):
        build_encoder(load(source), folder, tokenizer, targets=targets or (DEFAULT_SOC,), notify=notice)
    written(folder)


@tool("xdlc-llm embed")
@_BUNDLE
@click.option("--prompt", metavar="TEXT", required=True, help="Embed this text.")
@click.option(
    "--soc",
    metavar="SOC",
    help="Emulate this SoC with the vendor's runtime.  [default: compute on this machine]",
)
def embed(source: Path, prompt: str, soc: str | None) -> None:
    """Print the embedding of a text, with one number on each line."""
    from xdlc.llm.encoder import embedding

    with bars.steps("running"):
        numbers = embedding(source, prompt, soc=soc)
    for number in numbers:
        output(f"{number:.6g}")


@group("xdlc-llm", build, run, chat, check, encoder, embed, evaluate)
def main() -> None:
    """Build language models for the vendor's runtime, talk to them, and evaluate them."""
