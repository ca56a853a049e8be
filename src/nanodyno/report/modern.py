"""What of a run is not plain GPT-2 with AdamW, in words."""

from nanodyno.config import RunConfig
from nanodyno.config.optimizers import OPTIMIZERS
from nanodyno.messages.language import ENGLISH, Language

EMBEDDING_INIT = RunConfig.model_fields["embedding_init"].default


def modern_words(config: RunConfig, language: Language = ENGLISH, has_rate: bool = True) -> str:
    """`RoPE, RMSNorm, 4 heads of keys and values, cautious decay`; empty for plain GPT-2 with AdamW.

    `has_rate` is False where the learning rate is still to be found.
    """
    words = [*_of_the_block(config, language), *_of_the_start(config, language)]
    return language.joined([*words, *_of_the_update(config, language, has_rate)])


def _of_the_block(config: RunConfig, language: Language) -> list[str]:
    cap, window = config.logit_softcap, config.window
    tables, shared = config.value_embeddings, config.n_kv_head
    words = ["RoPE"] if config.positions == "rope" else []
    words += ["RMSNorm"] if config.norm == "rms" else []
    words += [language.say("model.relu-squared")] if config.activation == "relu2" else []
    words += ["QK-norm"] if config.qk_norm else []
    if shared is not None and shared != config.n_head:
        words.append(language.say_plural("model.kv-heads", shared))
    if window is not None:
        words.append(
            language.say(
                "model.window",
                window=language.number(window, ","),
                pattern=config.window_pattern,
            )
        )
    words += [language.say("model.value-embeddings", number=str(tables))] if tables else []
    words += [language.say("model.untied-head")] if config.untied_head else []
    words += [language.say("model.logit-softcap", cap=language.number(cap, "g"))] if cap else []
    return words


def _of_the_start(config: RunConfig, language: Language) -> list[str]:
    words = [language.say("model.zero-init")] if config.zero_init else []
    if config.embedding_init != EMBEDDING_INIT:
        deviation = language.number(config.embedding_init, "g")
        words.append(language.say("model.embedding-init", deviation=deviation))
    return words


def _of_the_update(config: RunConfig, language: Language, has_rate: bool) -> list[str]:
    words: list[str] = []
    if config.optimizer != "adamw":
        entry = OPTIMIZERS[config.optimizer]
        peak = entry.peak_of(config) or (config.learning_rate if has_rate else None)
        if peak is None:
            words.append(entry.label)
        else:
            rate = language.number(peak, ".2e")
            words.append(language.say("model.optimizer-rate", optimizer=entry.label, rate=rate))
    if config.embedding_lr is not None and (config.untied_head or config.value_embeddings):
        words.append(language.say("model.embedding-rate", rate=language.number(config.embedding_lr, ".2e")))
    return [*words, *([language.say("model.cautious-decay")] if config.cautious_decay else [])]
