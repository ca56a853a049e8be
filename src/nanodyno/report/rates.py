"""What a range test of the learning rate found, in words."""

from nanodyno.analysis.rates import Chosen, Lengths


def chosen_words(chosen: Chosen, trials: int, lengths: Lengths) -> str:
    interval = chosen.interval
    words = f"learning_rate=auto chose {chosen.learning_rate:g}"
    if interval.low is not None and interval.high is not None:
        words += f" (95% interval {interval.low:.2g} to {interval.high:.2g} over {interval.n} repeats)"
    words += f" by {trials} trainings: {chosen.in_short:.2g} was best in {lengths.short} iterations"
    if chosen.in_long is not None:
        words += f" and {chosen.in_long:.2g} in {lengths.long:,}"
        falls = chosen.in_long < chosen.in_short
        words += f", carried on from there to {lengths.whole:,}" if falls else ", which is taken as it is"
    words += "; the whole run may want another"
    if chosen.at_the_end:
        words += "; losses still fell at the last rate that is tried"
    return words
