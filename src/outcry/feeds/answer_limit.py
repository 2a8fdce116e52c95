"""How long a feed waits for an answer of its vendor when tests shorten its pauses."""

_MIN_LIMIT_S = 5.0


def answer_limit_s(usual_s: float, speedup: float) -> float:
    """Return how long to wait for an answer, in seconds.

    It is `usual_s / speedup`, but at least 5 s, or `usual_s` if that is shorter.

    Tests divide pauses by `speedup`. An answer takes as long as the machine needs, so its limit cannot be divided
    as far: a busy machine would look like a vendor that does not answer.
    """
    return max(min(usual_s, _MIN_LIMIT_S), usual_s / speedup)
