"""What a range test of the learning rate found, in words."""

from nanodyno.analysis.rates import Chosen


def chosen_words(chosen: Chosen, trials: int, iterations: int) -> str:
    interval = chosen.interval
    words = f"learning_rate=auto chose {chosen.learning_rate:g}"
    if interval.low is not None and interval.high is not None:
        words += f" (95% interval {interval.low:.2g} to {interval.high:.2g} over {interval.n} repeats)"
    words += f" by {trials} trainings of {iterations} iterations; the whole run may want another"
    if chosen.at_the_end:
        words += "; losses still fell at the last rate that is tried"
    return words
