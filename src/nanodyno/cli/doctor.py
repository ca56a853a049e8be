"""`nanodyno doctor`: what this machine is, what it reaches, and what to fix."""

from pathlib import Path
from typing import Annotated

import typer

from nanodyno.cli.options import Json, Lang, console_for, language_of, print_page

IMPOSSIBLE = 1


def doctor(
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    width: Annotated[
        int | None,
        typer.Option(min=16, max=16384, help="Also measure the matmuls of a GPT of this n_embd."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Measure the ceilings again, even if a stored measurement exists.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Take only seconds: skip the compile test and the ceilings.")
    ] = False,
    lang: Lang = None,
    json: Json = False,
) -> None:
    """Check this machine: GPU, datasheet peak, measured ceilings, drivers, torch.compile, disk, what to fix.

    nanodyno doctor

    nanodyno doctor --width 1024 --again

    Works without a GPU. Exit code 1 means that training is impossible here.

    Ceilings are measured once for each GPU and driver. `train` and `show` then report the speed as a share.
    """
    if again and quick:
        from nanodyno.errors import NanodynoError

        raise NanodynoError("--again measures the ceilings, and --quick skips them", "use one of the two")

    language = language_of(lang, json)

    from nanodyno.analysis.checkup import can_train, findings
    from nanodyno.probe.checkup import CheckupRequest, check_up
    from nanodyno.report.doctor import doctor_document, doctor_page
    from nanodyno.report.document import to_json
    from nanodyno.report.doing import show_doing

    with show_doing(console_for(json=True)) as tell:
        found = check_up(CheckupRequest(device, width, again, quick), Path.cwd(), tell)
    if json:
        typer.echo(to_json(doctor_document(found)))
    else:
        print_page(doctor_page(found, language), console_for(json), language)
    if not can_train(findings(found)):
        raise typer.Exit(IMPOSSIBLE)
