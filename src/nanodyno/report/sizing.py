"""What was chosen for so many hours on a GPU, and of which sizes: in words, and for programs."""

import math
from collections.abc import Iterator
from dataclasses import asdict

from rich.cells import cell_len
from rich.table import Table

from nanodyno.analysis.forecast import by_size
from nanodyno.analysis.forecast_size import SizeLaw
from nanodyno.analysis.sizing import SizeChoice
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.messages.numbers import kind_of_data

OF_THE_RECIPES = "edu"
"""The dataset that recipes for hours name: FineWeb-Edu, which has to be prepared."""
SAMPLES = {"10BT": 9.5e9, "100BT": 95e9}
"""Of FineWeb-Edu, and how much of each may be asked for: they have about what they are called by."""
SEEN_OFTEN = 4
"""Times that data are worth almost as much as new ones (Muennighoff and others 2023)."""


def chosen_words(choice: SizeChoice, language: Language = ENGLISH) -> str:
    config, best = choice.chosen.config, choice.best.config
    words = language.say(
        "size.chosen.words",
        layers=quantities.layers(config.n_layer, config.n_embd, language),
        duration=quantities.duration(choice.hours * 3600, language),
    )
    if choice.best is choice.chosen:
        return words
    layers = quantities.layers(best.n_layer, best.n_embd, language)
    return language.clauses([words, language.say("size.chosen.with-more-memory", layers=layers)])


def expected_words(choice: SizeChoice, language: Language = ENGLISH) -> str:
    if not choice.known_tokenizer:
        return language.say("size.loss.other-tokenizer")
    law = choice.expected
    if law is None:
        return language.say("size.loss.too-few-tokens")
    loss = by_size(law)
    words = language.say(
        "size.loss.expected",
        loss=language.number(loss.median, ".2f"),
        low=language.number(loss.low, ".2f"),
        high=language.number(loss.high, ".2f"),
        data=kind_of_data(law.data, language),
    )
    if choice.in_proportion:
        return words
    shape = language.say("size.loss.shape-not-counted")
    return language.clauses([words, shape])


def sizes_title(choice: SizeChoice, language: Language = ENGLISH) -> str:
    return language.say(
        "size.table.title",
        duration=quantities.duration(choice.hours * 3600, language),
    )


def sizes_table(choice: SizeChoice, language: Language = ENGLISH, most: int | None = None) -> Table:
    """Losses are expected ones. The chosen size is bold; of at most so many, the others are next to it."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    titles = (
        "size.table.layers-and-width",
        "size.table.parameters",
        "common.tokens",
        "common.micro-batch",
        "common.memory",
        "common.loss",
    )
    for title in titles:
        table.add_column(language.say(title), justify="right")
    table.add_column(language.say("common.fits"))
    place = choice.shown.index(choice.chosen)
    near = sorted(range(len(choice.shown)), key=lambda number: abs(number - place))[:most]
    for each in (choice.shown[number] for number in sorted(near)):
        table.add_row(
            f"{each.config.n_layer} x {each.config.n_embd}",
            quantities.count(each.parameters, language),
            quantities.count(each.tokens, language),
            str(each.config.batch_size),
            quantities.gib(each.memory_bytes, language),
            language.number(each.law.median, ".2f") if choice.known_tokenizer else "-",
            language.say("common.yes") if each.fits else language.say("common.no"),
            style="bold" if each is choice.chosen else "" if each.fits else "dim",
        )
    for column in table.columns:  # in a narrow window titles fold, and figures stay whole
        column.min_width = max(cell_len(str(cell)) for cell in column.cells)
    return table


def refused_note(why: str, language: Language = ENGLISH) -> str:
    """Of a dataset that is here and that training would not take."""
    return language.say("size.data.refused", words=why)


def data_notes(
    dataset: str,
    vocabulary: int | None,
    train_tokens: int | None,
    planned_tokens: int | None,
    language: Language = ENGLISH,
    estimated: bool = False,
) -> Iterator[str]:
    """`vocabulary` where it had to be assumed, `planned_tokens` where a loss is told for them;
    `estimated` train tokens are those of the embedded corpus before it is prepared."""
    if vocabulary is not None:
        yield language.say(
            "size.data.vocabulary-assumed",
            dataset=dataset,
            number=language.number(vocabulary, ","),
        )
        if planned_tokens and dataset == OF_THE_RECIPES:
            yield language.say(
                "size.data.how-to-prepare",
                **_prepared(dataset, planned_tokens, language),
            )
    if not train_tokens or not planned_tokens or planned_tokens <= SEEN_OFTEN * train_tokens:
        return
    tokens, often = quantities.count(train_tokens, language), planned_tokens / train_tokens
    if estimated:
        yield language.say(
            "size.data.embedded-repeated",
            tokens=tokens,
            epochs=quantities.about(often, language=language),
        )
        return
    yield language.say(
        "size.data.repeated",
        dataset=dataset,
        tokens=tokens,
        epochs=quantities.epochs(often, language),
    )


def _prepared(dataset: str, planned_tokens: int, language: Language) -> dict[str, str]:
    """With a hundredth more, of which val text is a part, in steps of 100M; two bytes a token."""
    tokens = math.ceil(1.01 * planned_tokens / 1e8) * 1e8
    sample = next((name for name, most in SAMPLES.items() if tokens <= most), "350BT")
    typed = f"{tokens / 1e9:g}B" if tokens >= 1e9 else f"{tokens / 1e6:g}M"
    command = f"nanodyno prepare fineweb-edu/{sample} --tokens {typed} --out data/{dataset}"
    return {"command": command, "size": language.number(2 * tokens / 1e9, ".1f")}


def choice_document(choice: SizeChoice) -> dict[str, object]:
    return {
        "hours": choice.hours,
        "settings": dict(choice.chosen.settings),
        "tokens": choice.tokens,
        "expected_val_loss": None if choice.expected is None else _expected(choice.expected),
        "sizes": [
            {
                "n_layer": each.config.n_layer,
                "n_embd": each.config.n_embd,
                "parameters": each.parameters,
                "tokens": each.tokens,
                "tokens_per_second": asdict(each.tokens_per_second),
                "memory_bytes": each.memory_bytes,
                "fits": each.fits,
                "expected_val_loss": _expected(each.law) if choice.known_tokenizer else None,
            }
            for each in choice.sizes
        ],
    }


def _expected(law: SizeLaw) -> dict[str, object]:
    loss = by_size(law)
    return {"median": loss.median, "low_80": loss.low, "high_80": loss.high, "data": law.data}


def choice_note(choice: SizeChoice, name: str, gpu: str | None) -> str:
    """For the record of a run."""
    size = choice.chosen
    return (
        f"{name} for {gpu}: {chosen_words(choice)}; {quantities.count(choice.tokens)} tokens at about "
        f"{quantities.about(size.tokens_per_second.value)} tok/s, which is predicted"
    )
