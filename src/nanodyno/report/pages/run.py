"""One run as a page to open: how it stands, its curve, where its time went, its facts."""

from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.audit import with_found_shape
from nanodyno.analysis.summary import Summary
from nanodyno.messages import quantities as q
from nanodyno.messages.language import Language
from nanodyno.records.store import Run
from nanodyno.report.behind import derivations
from nanodyno.report.facts import fact_rows
from nanodyno.report.figures import Bar, Bars
from nanodyno.report.page import Page, PageElement, Section, Table, Tile, Tiles
from nanodyno.report.pages.losses import loss_pictures
from nanodyno.report.state import state_words


def run_report(run: Run, summary: Summary, language: Language) -> Page:
    account = with_found_shape(account_of(run))
    answer = state_words(run, summary, language)
    folded = derivations([account], language)
    sections = [
        Section(run.name, (answer, *_tiles(summary, language))),
        Section(language.say("common.loss"), (loss_pictures([account], language),)),
        Section(language.say("common.where-time-went"), (_time(summary, language),)),
        Section(language.say("show.section.facts"), (_facts(run, summary, language),)),
    ]
    sections += [] if folded is None else [Section(None, (folded,))]
    return Page(language.say("show.page-title"), tuple(sections), (run.name, str(run.folder)))


def _facts(run: Run, summary: Summary, language: Language) -> Table:
    rows = fact_rows(run, summary, language)
    return Table(("", ""), tuple((language.say(title), words) for title, words in rows))


def _tiles(summary: Summary, language: Language) -> tuple[PageElement, ...]:
    tiles: list[Tile] = []
    if summary.last_val is not None:
        tiles.append(Tile(language.say("common.val-loss"), language.number(summary.last_val.loss, ".4f")))
    if (rate := summary.speed.tokens_per_second) is not None:
        tiles.append(Tile(language.say("common.tokens-per-second"), q.rate(rate.value, language)))
    if (mfu := summary.speed.mfu) is not None:
        tiles.append(
            Tile(
                language.say("common.share-of-peak"),
                q.percent(mfu.value, language),
                summary.speed.reference.gpu_name or "",
            )
        )
    peak = summary.peak_allocated_bytes or summary.peak_host_bytes
    if peak is not None:
        tiles.append(Tile(language.say("common.peak-memory"), q.gib(peak, language)))
    return (Tiles(tuple(tiles)),) if tiles else ()


def _time(summary: Summary, language: Language) -> PageElement:
    training, evaluation = summary.training_seconds, summary.evaluation_seconds
    if training is None or evaluation is None or training + evaluation == 0:
        return language.say("show.time.not-known")
    waiting = (summary.data_wait_share or 0.0) * training
    parts = (
        (language.say("show.time.training"), training - waiting),
        (language.say("common.waiting-for-data"), waiting),
        (language.say("show.time.evaluation"), evaluation),
        (language.say("show.time.saving"), summary.saving_seconds),
    )
    total = sum(seconds for _, seconds in parts)
    rows = tuple(
        Bar(label, (seconds,), (f"{q.duration(seconds, language)} · {q.percent(seconds / total, language)}",))
        for label, seconds in parts
    )
    return Bars(
        language.say("show.picture.time-title"),
        language.say("show.picture.time-note"),
        rows,
    )
