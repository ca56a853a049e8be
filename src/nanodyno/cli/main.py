"""The command line: every command in a file of its own, and the one place where errors become exit codes."""

import sys
from collections.abc import Sequence
from typing import Annotated

import click
import typer

from nanodyno import __version__
from nanodyno.cli.demo import demo
from nanodyno.cli.runs import runs
from nanodyno.cli.sample import sample
from nanodyno.cli.show import show
from nanodyno.cli.train import train
from nanodyno.errors import NanodynoError

INTERRUPTED = 130

app = typer.Typer(
    name="nanodyno",
    help="Train the best small GPT that one GPU can, and know why it is fast.",
    epilog="Start with `nanodyno demo`: it needs no GPU, no network and no data.",
    no_args_is_help=True,
    add_completion=False,
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
app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    no_args_is_help=True,
)(train)
app.command()(runs)
app.command(no_args_is_help=True)(show)
app.command(no_args_is_help=True)(sample)


def main(arguments: Sequence[str] | None = None) -> None:
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 it ran and failed, 2 the user's mistake, 130 Ctrl-C; our own bugs traceback."""
    try:
        outcome = app(arguments, standalone_mode=False)
    except NanodynoError as error:
        _explain(error.message, error.hint)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        typer.echo(error.format_message())
        return 2
    except click.ClickException as error:
        command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "nanodyno"
        _explain(error.format_message(), f"`{command} --help` shows what it takes")
        return error.exit_code
    except (KeyboardInterrupt, click.exceptions.Abort):
        typer.echo("stopped", err=True)
        return INTERRUPTED
    return outcome if isinstance(outcome, int) else 0


def _explain(message: str, hint: str | None) -> None:
    typer.secho(f"error: {message}", err=True, fg="red")
    if hint:
        typer.echo(f"hint: {hint}", err=True)
