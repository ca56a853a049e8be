"""`nanodyno sample`: text from a run's newest checkpoint."""

from typing import Annotated

import typer

from nanodyno.cli.options import RUNS_FOLDER, Json, RunName
from nanodyno.errors import NanodynoError

BETWEEN = "---------------"
"""As nanoGPT parts its samples."""
SAID_BY_NANOGPT = {"start": "prompt", "max_new_tokens": "tokens"}


def plain_name(option: str) -> str:
    """Ours, of an option that is named as in nanoGPT's sample.py."""
    return SAID_BY_NANOGPT.get(option, option.replace("_", "-"))


def sample(  # noqa: PLR0913 - one parameter per option
    run: RunName,
    prompt: Annotated[str, typer.Option(help="Text to continue (default: the start of a document).")] = "",
    tokens: Annotated[int, typer.Option(min=1, help="Tokens to generate.")] = 200,
    num_samples: Annotated[int, typer.Option(min=1, help="Texts to generate, each with the next seed.")] = 1,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 always takes the most likely token.")] = 0.8,
    top_k: Annotated[int, typer.Option(min=0, help="Draw from the k most likely tokens; 0 for all.")] = 200,
    seed: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="The same seed gives the same text.")
    ] = 1337,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="For a dataset that does not name its own, such as nanoGPT's train.bin: gpt2, bytes, or "
            "another tiktoken encoding."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    json: Json = False,
) -> None:
    """Generate text with a trained model.

    nanodyno sample demo-1 --prompt "def main(" --tokens 300

    The option names of nanoGPT's sample.py work too: --start, --num_samples, --max_new_tokens, --top_k.
    """
    from itertools import islice

    from nanodyno.records.imported import ImportedRecord
    from nanodyno.records.store import CHECKPOINTS_FOLDER, find_run, read_any_record
    from nanodyno.report.document import to_json
    from nanodyno.train.sampling import Dials, sample_texts

    folder = find_run(run, RUNS_FOLDER)
    if isinstance(read_any_record(folder), ImportedRecord):
        raise NanodynoError(
            f"{folder} was imported from a log, which has no weights", "name a run that was trained here"
        )
    checkpoints = folder / CHECKPOINTS_FOLDER
    dials = Dials(prompt, tokens, temperature, top_k or None, seed)
    drawn = sample_texts(checkpoints, dials, device, tokenizer, lambda text: typer.echo(text, err=True))
    texts = islice(drawn, num_samples)
    if json:
        whole = ["".join(pieces) for pieces in texts]
        typer.echo(to_json({"run": run, "prompt": prompt, "text": whole[0], "texts": whole}))
        return
    for number, pieces in enumerate(texts):
        typer.echo(f"{BETWEEN}\n" if number else "", nl=False)
        typer.echo(prompt, nl=False)
        for piece in pieces:
            typer.echo(piece, nl=False)
        typer.echo()
