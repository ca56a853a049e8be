from typing import Any

import pytest

from nanodyno.config import build_config
from nanodyno.messages.language import ENGLISH, LANGUAGES
from nanodyno.report.modern import modern_words


def test_plain_gpt2_has_nothing_beyond_it() -> None:
    assert modern_words(build_config({"n_embd": 384})) == ""


def test_every_part_is_reported_once_in_the_order_of_the_model() -> None:
    settings: dict[str, Any] = {
        "n_embd": 384, "positions": "rope", "norm": "rms", "activation": "relu2", "qk_norm": True,
        "n_kv_head": 2, "window": 256, "value_embeddings": 3, "untied_head": True, "logit_softcap": 15.0,
        "zero_init": True, "embedding_init": 0.5, "optimizer": "muon", "muon_lr": 2e-3, "embedding_lr": 0.01,
        "cautious_decay": True,
    }  # fmt: skip
    say = ENGLISH.say
    assert modern_words(build_config(settings)) == ENGLISH.joined(
        [
            "RoPE",
            "RMSNorm",
            say("model.relu-squared"),
            "QK-norm",
            ENGLISH.say_plural("model.kv-heads", 2),
            say("model.window", window="256", pattern="SSSL"),
            say("model.value-embeddings", number="3"),
            say("model.untied-head"),
            say("model.logit-softcap", cap="15"),
            say("model.zero-init"),
            say("model.embedding-init", deviation="0.5"),
            say("model.optimizer-rate", optimizer="Muon", rate="2.00e-03"),
            say("model.embedding-rate", rate="1.00e-02"),
            say("model.cautious-decay"),
        ]
    )


def test_muon_without_a_rate_of_its_own_has_the_others() -> None:
    config = build_config({"optimizer": "muon", "learning_rate": 3e-4})
    assert modern_words(config) == ENGLISH.say("model.optimizer-rate", optimizer="Muon", rate="3.00e-04")


def test_a_rate_for_tables_that_are_not_there_is_not_reported() -> None:
    assert modern_words(build_config({"embedding_lr": 0.1})) == ""
    assert modern_words(build_config({"embedding_lr": 0.1, "untied_head": True})).endswith(
        ENGLISH.say("model.embedding-rate", rate="1.00e-01")
    )


def test_a_rate_that_is_still_to_be_found_is_not_reported() -> None:
    settings = {"optimizer": "muon", "learning_rate": 3e-4}
    assert modern_words(build_config(settings), has_rate=False) == "Muon"
    given = build_config(settings | {"muon_lr": 2e-3})
    assert modern_words(given, has_rate=False) == (
        ENGLISH.say("model.optimizer-rate", optimizer="Muon", rate="2.00e-03")
    )


@pytest.mark.parametrize("code", LANGUAGES)
def test_as_many_heads_as_queries_have_are_nothing_new(code: str) -> None:
    same = build_config({"n_embd": 384, "n_kv_head": 6})
    assert modern_words(same, LANGUAGES[code]) == ""
    one = modern_words(build_config({"n_embd": 384, "n_kv_head": 1}), LANGUAGES[code])
    assert one != modern_words(build_config({"n_embd": 384, "n_kv_head": 2}), LANGUAGES[code])
