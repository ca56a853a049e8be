"""The card and the vocabulary that a config would meet: by name, or those at hand."""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from nanodyno.config import RunConfig
    from nanodyno.costs.target import Target

DATA_FOLDER = Path("data")


@dataclass(frozen=True)
class Vocabulary:
    """Of the model, which may be padded, and of the data."""

    model: int
    data: int
    train_tokens: int | None
    """None where the dataset is not here."""
    estimated: bool = False
    """Whether those are, for a corpus that was not prepared yet."""
    assumed: bool = False
    """Whether the vocabulary is its tokenizer's, for want of the dataset."""
    refused: str | None = None
    """Why training would not take the dataset, where it is here."""


def target_of(device: str, gpu: str | None, limit: int | None) -> "Target":
    from nanodyno.costs.target import Target, named_target

    if gpu is not None:
        return named_target(gpu, limit)
    return _at_hand(device, limit) or Target(None, None, limit, limited=limit is not None)


def _at_hand(device: str, limit: int | None) -> "Target | None":
    """The card that training would take, with what doctor measured of it; None where there is none."""
    import torch

    from nanodyno.costs.target import present_target
    from nanodyno.hardware.host import available_memory
    from nanodyno.records.ceilings import recall_ceilings
    from nanodyno.train.device import describe_machine

    if device in ("cpu", "mps") or not torch.cuda.is_available():
        return None
    cards = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    _, _, number = device.partition(":")
    if number and int(number) >= len(cards):
        raise NanodynoError(f"device={device}, but this machine has {len(cards)} of them")
    if not number and len({(card.name, card.total_memory) for card in cards}) > 1:
        listed = ", ".join(f"cuda:{place} {card.name}" for place, card in enumerate(cards))
        raise NanodynoError(f"which card is meant: {listed}", "name one by --device=cuda:N or --gpu NAME")
    place = int(number) if number else 0
    card, ceilings = cards[place], recall_ceilings(describe_machine(torch.device("cuda", place)))
    target = present_target(card.name, card.total_memory, limit, available_memory())
    return replace(target, ceilings=ceilings)


def vocabulary_of(config: "RunConfig") -> Vocabulary:
    from nanodyno.config import padded_vocab_size
    from nanodyno.data.embedded import embedded_tokens
    from nanodyno.data.resolve import EMBEDDED, resolve_dataset
    from nanodyno.data.shards import NoDataset
    from nanodyno.data.tokenizers import VOCABULARIES

    own = VOCABULARIES[config.tokenizer]
    tokens, estimated, assumed, refused = None, False, False, None
    embedded = config.dataset == EMBEDDED  # which is opened where it was prepared, and not made for this
    name = f"{EMBEDDED}-{config.tokenizer}" if embedded else config.dataset
    try:
        dataset = resolve_dataset(name, DATA_FOLDER, config.tokenizer, config.vocab_size)
        own, tokens = dataset.vocab_size, dataset.tokens("train")
    except NanodynoError as error:
        estimated, assumed = embedded, config.vocab_size is None and not embedded
        tokens = embedded_tokens(config.tokenizer) if embedded else None
        if not embedded and not isinstance(error, NoDataset):
            refused = error.message if error.hint is None else f"{error.message} ({error.hint})"
            tokens = _tokens_in(name, config.tokenizer, own)
    if config.vocab_size is not None:
        return Vocabulary(config.vocab_size, min(own, config.vocab_size), tokens, estimated, refused=refused)
    return Vocabulary(padded_vocab_size(own), own, tokens, estimated, assumed, refused)


def _tokens_in(name: str, tokenizer: str, vocab_size: int) -> int | None:
    """Of a folder that does not say its vocabulary, as it would be with this one."""
    from nanodyno.data.resolve import resolve_dataset

    with suppress(NanodynoError):
        return resolve_dataset(name, DATA_FOLDER, tokenizer, vocab_size).tokens("train")
    return None
