"""The command line: every command in a file of its own, and the one place where errors become exit codes."""

import os
import signal
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from nanodyno import __version__
from nanodyno.cli.attribute import attribute
from nanodyno.cli.compare import compare
from nanodyno.cli.demo import demo
from nanodyno.cli.doctor import doctor
from nanodyno.cli.forecast import forecast
from nanodyno.cli.importing import import_log
from nanodyno.cli.judge import judge
from nanodyno.cli.options import INTERRUPTED, OLD_OPTIONS, renamed_options
from nanodyno.cli.plan import plan
from nanodyno.cli.prepare import prepare
from nanodyno.cli.probe import probe
from nanodyno.cli.runs import runs
from nanodyno.cli.sample import plain_name, sample
from nanodyno.cli.show import show
from nanodyno.cli.train import train
from nanodyno.cli.tune import tune
from nanodyno.errors import NanodynoError, did_you_mean, nearest_names

OTHER_NAMES = {
    "bench": "probe", "benchmark": "probe", "profile": "probe", "sweep": "tune", "search": "tune",
    "optimize": "tune", "list": "runs", "ls": "runs", "info": "show", "report": "show", "diff": "compare",
    "ablate": "attribute", "ablation": "attribute", "estimate": "plan", "predict": "forecast",
    "try": "judge", "referee": "judge", "ab": "judge",
    "generate": "sample", "check": "doctor", "data": "prepare", "download": "prepare", "resume": "train",
}  # fmt: skip
"""What a command may be called by who does not know its name."""


class Commands(TyperGroup):
    """Exit codes: 0 done, 1 it ran and failed, 2 the user's mistake, 130 Ctrl-C; our own bugs traceback."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command and its arguments, an option's old name replaced by the one that it has now."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            known = self.list_commands(ctx)
            question = did_you_mean(nearest_names(args[0], known, OTHER_NAMES))
            raise NanodynoError(f"no such command: {args[0]}{question}", f"commands: {', '.join(known)}")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, list(renamed_options(rest, OLD_OPTIONS.get(name or "", {})))

    def invoke(self, ctx: Any) -> object:
        try:
            return super().invoke(ctx)
        except NanodynoError as error:
            typer.secho(f"error: {error.message}", err=True, fg="red")
            if error.hint:
                typer.echo(f"hint: {error.hint}", err=True)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="nanodyno",
    cls=Commands,
    help="Train the best small GPT that one GPU can, and know why it is fast.",
    epilog="Start with `nanodyno demo`: it needs no GPU, no network and no data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"nanodyno {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    del version


app.command()(demo)
app.command()(doctor)
app.command(no_args_is_help=True)(prepare)
app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    no_args_is_help=True,
)(train)
app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    no_args_is_help=True,
)(probe)
app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    no_args_is_help=True,
)(plan)
app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    no_args_is_help=True,
)(tune)
app.command("import", no_args_is_help=True)(import_log)
app.command()(runs)
app.command(no_args_is_help=True)(show)
app.command(no_args_is_help=True)(compare)
app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    no_args_is_help=True,
)(attribute)
app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    no_args_is_help=True,
)(judge)
app.command(no_args_is_help=True)(forecast)
app.command(no_args_is_help=True, context_settings={"token_normalize_func": plain_name})(sample)


def main(arguments: Sequence[str] | None = None) -> None:
    # Read by torch's OpenMP when it loads. Its threads spin while they wait for each other; spinning less
    # doubled the speed beside a busy neighbour and cost nothing that was seen without one (docs/log).
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    # A time limit of a queue, or a machine that is taken back: what is known by then is shown, as at Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a letter that a terminal lacks is no reason to fail
            stream.reconfigure(errors="replace")
    app(arguments)
