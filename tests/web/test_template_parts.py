"""A part of a page is rendered once for equal values, and never shown for others."""

import pytest

from outcry.web import template_engine
from outcry.web.language import Languages
from outcry.web.static import StaticFiles
from outcry.web.template_engine import Templates


@pytest.fixture
def templates(monkeypatch: pytest.MonkeyPatch) -> Templates:
    monkeypatch.setattr(template_engine, "_MAX_PARTS", 3)
    return Templates(StaticFiles())


def part(templates: Templates, language: str = "en", **values: object) -> str:
    """Render a template that needs no values."""
    return templates._part(Languages.words(language), "dialogs.html", **values)


def test_equal_values_give_the_text_rendered_before(templates: Templates) -> None:
    first = part(templates, row={"levels": [1.5, None], "name": "ES"})
    assert part(templates, row={"levels": [1.5, None], "name": "ES"}) is first
    assert part(templates, row={"levels": [1.5, 2.0], "name": "ES"}) is not first
    assert part(templates, row=("levels", "name")) is not first


def test_each_language_has_its_own_text(templates: Templates) -> None:
    english, german = part(templates), part(templates, "de")
    assert english != german
    assert (part(templates), part(templates, "de")) == (english, german)


def test_the_part_used_least_recently_is_forgotten_first(templates: Templates) -> None:
    parts = [part(templates, row=number) for number in range(3)]
    assert part(templates, row=0) is parts[0]
    part(templates, row=3)
    assert part(templates, row=0) is parts[0]
    assert part(templates, row=1) is not parts[1]


def test_values_that_are_not_plain_data_are_refused(templates: Templates) -> None:
    with pytest.raises(TypeError):
        part(templates, row=object())
