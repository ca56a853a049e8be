"""`nanodyno doctor`: what this machine is, what it reaches, and what to fix."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nanodyno.cli.options import Json, Lang, console_for, language_of, print_page
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from nanodyno.records.checkup import CheckupRecord

IMPOSSIBLE = 1


def doctor(  # noqa: PLR0913 - one parameter per option
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
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the ceilings as a small JSON file that `plan --measured` takes."
        ),
    ] = None,
    lang: Lang = None,
    json: Json = False,
) -> None:
    """Check this machine: GPU, datasheet peak, measured ceilings, drivers, torch.compile, disk, what to fix.

    nanodyno doctor

    nanodyno doctor --width 1024 --again

    nanodyno doctor --export ceilings.json

    Works without a GPU. Exit code 1 means that training is impossible here.

    Ceilings are measured once for each GPU and driver. `train` and `show` then report the speed as a share.
    """
    if again and quick:
        raise NanodynoError("--again measures the ceilings, and --quick skips them", "use one of the two")
    if export is not None:
        _refuse_export(export, quick)

    language = language_of(lang, json)

    from nanodyno.analysis.checkup import can_train, findings
    from nanodyno.probe.checkup import CheckupRequest, check_up
    from nanodyno.report.doctor import doctor_document, doctor_page, exported_words
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
    if export is not None:
        words = exported_words(found, str(export), _export(found, export), language)
        console_for(json).print(words, highlight=False, markup=False, soft_wrap=True)


def _refuse_export(path: Path, quick: bool) -> None:
    """Before a minute is spent on measuring."""
    from nanodyno.records.exported import CEILINGS_FORMAT, format_of

    if quick:
        raise NanodynoError(
            "--export writes measured ceilings, and --quick measures none", "leave --quick out"
        )
    if path.exists() and format_of(path) != CEILINGS_FORMAT:
        raise NanodynoError(f"{path} is there, and holds no ceilings of nanodyno", "choose another file")


def _export(found: "CheckupRecord", path: Path) -> int:
    """Return the size in bytes of what was written."""
    from nanodyno.records.ceilings import ceilings_text
    from nanodyno.records.files import write_whole

    if found.ceilings is None:
        why = found.ceilings_fault or found.device_fault or "they could not be measured"
        raise NanodynoError(
            f"there are no ceilings to export: {why}", "`nanodyno doctor` without --export says what to fix"
        )
    if found.ceilings.device.threads is not None:
        raise NanodynoError("these ceilings are of a CPU, and plans are for GPUs", "leave --export out")
    if not found.kept:
        raise NanodynoError(
            "the ceilings were disturbed while they were measured, and are not exported",
            "end what else runs on this machine, and run it again",
        )
    text = ceilings_text(found.ceilings)
    try:
        write_whole(path, text)
    except OSError as error:
        raise NanodynoError(f"cannot write {path}: {error.strerror}") from error
    return len(text.encode())
