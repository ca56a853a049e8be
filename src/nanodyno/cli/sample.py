"""`nanodyno sample`: text from a run's newest checkpoint."""

from typing import Annotated

import typer

from nanodyno.cli.options import RUNS_FOLDER, Json, RunName


def sample(  # noqa: PLR0913 - one parameter per option
    run: RunName,
    prompt: Annotated[
        str, typer.Option(help="Text to go on from; by default, the start of a document.")
    ] = "",
    tokens: Annotated[int, typer.Option(min=1, help="Tokens to draw.")] = 200,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 takes the likeliest token each time.")] = 0.8,
    top_k: Annotated[int, typer.Option(min=0, help="Draw among the k likeliest only; 0 is no limit.")] = 200,
    seed: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="The same seed draws the same text.")
    ] = 1337,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="For a dataset that does not name its own, such as nanoGPT's train.bin: gpt2, bytes, or "
            "another of tiktoken's encodings."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    json: Json = False,
) -> None:
    """Write text with a trained model.

    nanodyno sample demo-1 --prompt "def main(" --tokens 300
    """
    from nanodyno.records.store import CHECKPOINTS_FOLDER, find_run
    from nanodyno.report.document import to_json
    from nanodyno.train.sampling import Dials, sample_text

    checkpoints = find_run(run, RUNS_FOLDER) / CHECKPOINTS_FOLDER
    dials = Dials(prompt, tokens, temperature, top_k or None, seed)
    pieces = sample_text(checkpoints, dials, device, tokenizer, lambda text: typer.echo(text, err=True))
    if json:
        typer.echo(to_json({"run": run, "prompt": prompt, "text": "".join(pieces)}))
        return
    typer.echo(prompt, nl=False)
    for piece in pieces:
        typer.echo(piece, nl=False)
    typer.echo()
