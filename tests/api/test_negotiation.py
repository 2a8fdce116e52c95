"""Content negotiation: the language of an answer, with cases from RFC 9110 and RFC 4647."""

import pytest

from outcry.base.negotiation import best_language


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("de", "de"),
        ("DE", "de"),
        ("de-AT", "de"),  # a region matches its language
        ("de-Latn-AT-1996", "de"),
        ("fr, de;q=0.1", "de"),  # the next best
        ("fr", "en"),
        ("en;q=0.4, de;q=0.5", "de"),
        ("en;q=0.5, de;q=0.5", "en"),  # equal weights: the header's order
        ("de;q=0.5, en;q=0.5", "de"),
        ("de;q=0", "en"),
        ("de;q=0, en;q=0.1", "en"),
        ("*", "en"),
        ("en;q=0, *", "de"),  # any but English
        ("en;q=0, de;q=0, *", "en"),  # none is acceptable, but one is required
        ("fr, *;q=0.5, de;q=0.7", "de"),
        ("fr;q=0.9, *;q=0.5", "en"),
        ("deu", "en"),
        ("de_AT", "en"),  # no language tag
        ("de;q=2", "de"),  # an unreadable quality is 1
        ("de;q=", "de"),
        ("de ; Q = 0.2 , en;q=0.1", "de"),
        ("ü, de", "de"),  # an unreadable part is ignored
        (",,;;,", "en"),
        ("x" * 1024 + ",de", "en"),  # beyond the parsed length
    ],
)
def test_the_language_preferred_most_is_chosen(header: str, language: str) -> None:
    assert best_language(header, ("en", "de")) == language


def test_a_language_by_another_name_is_met() -> None:
    """Browsers send `no` for Norwegian; the catalogue is that of Bokmål."""
    assert best_language("no", ("en", "nb-NO")) == "nb-NO"
    assert best_language("NB-no", ("en", "nb-NO")) == "nb-NO"
    assert best_language("nb-no;q=0, *", ("nb-NO", "en")) == "en"
