"""Every sentence of the core is translated, with prices in the exchange's format."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

import pytest
from tests.web.texts import translated

from outcry.answers import alert_phrases
from outcry.answers.charting import Notation
from outcry.market.alerts.machine import AlertType
from outcry.market.bias import Bias
from outcry.market.calendar import SessionKind
from outcry.market.day_type import DayType, OpenType
from outcry.market.levels import CarriedLevel, CarriedLevels
from outcry.market.opening import Opening, Prior
from outcry.market.playbook import Condition, Reference, ReferenceKind, ScenarioId, ScenarioState, Status
from outcry.market.scenario_rules import ScenarioRule, scenario_rules
from outcry.web.formatter import Clock, Formatter, left
from outcry.web.language import Languages
from outcry.web.status_labels import status_label
from outcry.web.symbol import phrases, playbook_words
from outcry.web.symbol.playbook_words import PlaybookWords
from outcry.wire.alerts import AlertEntry
from outcry.wire.answers import BiasVotes

ENGLISH, GERMAN = Languages.words("en"), Languages.words("de")
TICK_E9 = 250_000_000
QUARTERS = Notation(kind="decimal", decimals=2, parts=1)


def formatter(language: str = "en", notation: Notation = QUARTERS) -> Formatter:
    return Formatter(notation, Clock(Languages.words(language), "America/New_York", "Europe/Berlin", 2026))


def test_dates_of_another_year_show_it() -> None:
    """The present is in 2026: 8 October 2013 was a Tuesday, 20 November 2026 is a Friday."""
    text = {
        language: (
            formatter(language).day("2026-11-20"), formatter(language).day("2013-10-08"),
            formatter(language).date("2026-11-20"), formatter(language).date("2013-10-08"),
            formatter(language).clock.mine_too(1_381_235_400 * 10**9),
        )
        for language in ("en", "de")
    }  # fmt: skip
    assert text == {
        "en": (
            "Fri, Nov 20", "Tue, Oct 8, 2013", "Nov 20", "Oct 8, 2013", "Tue, Oct 8, 2013 14:30:00 CEST",
        ),
        "de": (
            "Fr., 20. Nov.", "Di., 8. Okt. 2013", "20. Nov.", "8. Okt. 2013", "Di., 8. Okt. 2013 14:30:00 CEST",
        ),
    }  # fmt: skip


def test_a_delayed_state_shows_the_year_of_another_year() -> None:
    now_ns = 1_795_104_000 * 10**9  # 2026-11-19
    notes = {
        (words.language, day): status_label(words, "no_connection", as_of=day, now_ns=now_ns).note
        for words in (ENGLISH, GERMAN)
        for day in ("2013-10-08", "2026-11-18")
    }
    assert notes == {
        ("en", "2013-10-08"): "Tue, Oct 8, 2013", ("en", "2026-11-18"): "Wed, Nov 18",
        ("de", "2013-10-08"): "Di., 8. Okt. 2013", ("de", "2026-11-18"): "Mi., 18. Nov.",
    }  # fmt: skip


def every_plan() -> Iterator[ScenarioRule]:
    """Whatever a session can be asked to wait for: poor extremes on both sides, with a balance and before it."""
    opening = Opening(
        contract="ESZ2026", root="ES", kind=SessionKind.RTH, trade_date=date(2026, 11, 20),
        segments=((0, 10**13),), short=False,
        prior=Prior(date(2026, 11, 19), poc=28_000, vah=28_040, val=27_960, high=28_100, low=27_900, close=28_010),
        carried=CarriedLevels(
            naked_pocs=(), poor_highs=(CarriedLevel(28_200, date(2026, 11, 17)),),
            poor_lows=(CarriedLevel(27_800, date(2026, 11, 18)),),
        ),
    )  # fmt: skip
    yield from scenario_rules(opening, 28_000, None)
    yield from scenario_rules(opening, 28_000, (28_050, 28_001))


def state(rule: ScenarioRule) -> ScenarioState:
    return ScenarioState(
        rule.id, rule.if_, rule.reference, rule.confirm, rule.invalidate, status=Status.PENDING
    )


def worded(language: str = "en", notation: Notation = QUARTERS, tick_e9: int = TICK_E9) -> PlaybookWords:
    form = formatter(language, notation)
    return PlaybookWords(Languages.words(language), tick_e9, form.price, form.day)


def test_every_scenario_is_worded_in_both_languages() -> None:
    found = [state(rule) for rule in every_plan()]
    assert {each.id for each in found} == set(ScenarioId)
    for english, german, given in zip(
        worded("en").cards(found), worded("de").cards(found), found, strict=True
    ):
        assert english.id == german.id == given.id
        for part in ("title", "if_", "confirm", "then", "invalidate"):
            assert getattr(english, part) != getattr(german, part), (given.id, part)
        for text in (english.if_, english.confirm, english.invalidate, german.if_):
            assert not any(raw in text for raw in ("bracket_close", "..", " x2", "%(", ">", "<")), text
        assert english.then == given.then[0].upper() + given.then[1:] + "."


def test_cards_are_sorted_by_status() -> None:
    rule = next(every_plan())
    found = [replace(state(rule), status=status) for status in Status]
    assert [card.status_label for card in worded().cards(found)] == [
        "Active", "Pending", "Reached", "Invalidated",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Condition("trade", ">", 28040), "Trades above 7,010.00"),
        (Condition("open", "<=", 28201), "Opens at 7,050.25 or below"),
        (
            Condition("bracket_close", "in", 27960, to_ticks=28040),
            "30-minute close between 6,990.00 and 7,010.00",
        ),
        (Condition("bracket_close", ">", 28040, times=2), "2 consecutive 30-minute closes above 7,010.00"),
        (
            Condition("bracket_close", "in", 27960, times=2, to_ticks=28040),
            "2 consecutive 30-minute closes between 6,990.00 and 7,010.00",
        ),
        (Condition("trade", ">=", -150), "Trades at −37.50 or above"),
    ],
)
def test_a_condition_reads_as_a_sentence(condition: Condition, text: str) -> None:
    assert worded().condition(condition) == text


def test_prices_of_conditions_are_written_the_exchanges_way() -> None:
    """7275 ticks of 1/64 are 113 and 43/64, or 21.5 32nds."""
    bonds = worded("de", Notation(kind="32nds", decimals=6, parts=2), 15_625_000)
    assert bonds.condition(Condition("trade", ">", 7275)) == "Kurs über 113'215"


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        (Reference(ReferenceKind.PRIOR_HIGH, 28100), "Prior high 7,025.00"),
        (
            Reference(ReferenceKind.POOR_HIGH, 28200, date(2026, 11, 17)),
            "Poor high Tue, Nov 17 7,050.00",
        ),
        (Reference(ReferenceKind.IB_MID, 28025), "IB midpoint 7,006.25"),
    ],
)
def test_a_reference_has_its_name_day_and_price(reference: Reference, text: str) -> None:
    assert worded().reference(reference) == text


def test_no_code_of_the_core_is_without_words() -> None:
    codes = [
        (phrases.BIASES, Bias), (phrases.DAY_TYPES, DayType), (phrases.OPEN_TYPES, OpenType),
        (alert_phrases.EVENTS, AlertType), (alert_phrases.SENTENCES, AlertType),
    ]  # fmt: skip
    for table, kinds in codes:
        assert set(table) == {kind.value for kind in kinds}
    assert set(playbook_words.TITLES) == set(ScenarioId)
    assert set(playbook_words.OUTCOMES) == set(ScenarioId)
    assert set(playbook_words.REFERENCES) == set(ReferenceKind)
    assert set(playbook_words.STATUSES) == set(Status)
    assert set(phrases.VOTES) == set(BiasVotes.__struct_fields__) - {"total"}


def test_every_text_has_german() -> None:
    tables = [
        phrases.BIASES, phrases.DAY_TYPES, phrases.OPEN_TYPES, phrases.VALUE_RELATIONS, alert_phrases.SEVERITIES,
        alert_phrases.EVENTS, alert_phrases.REPAIRED, alert_phrases.SENTENCES, alert_phrases.SENTENCES_REPAIRED,
        alert_phrases.BAR_SENTENCES, alert_phrases.BAR_SENTENCES_REPAIRED,
        playbook_words.TITLES, playbook_words.STATUSES,
        playbook_words.OUTCOMES, playbook_words.REFERENCES, playbook_words.CONDITIONS,
    ]  # fmt: skip
    texts = {text for table in tables for text in table.values()} | {alert_phrases.BOTH_SIDES}
    texts |= {text for text in phrases.VOTES.values() for text in text}
    texts |= {one for one, _ in playbook_words.CONDITIONS_IN_A_ROW.values()}
    assert texts - translated("de") == set()


def test_votes_that_speak_come_first_with_their_side() -> None:
    votes = BiasVotes(last=0, poc=1, value=-1, extension=0, one_timeframing=1, total=1)
    found = phrases.reasons(votes, ENGLISH)
    assert [reason.sign for reason in found] == [1, -1, 1, 0, 0]
    assert found[0].text == "Developing POC is above the prior value area"
    assert found[1].text == "Value area is developing lower than the prior one"


def alert(kind: AlertType, ref: str, price: float, **params: object) -> AlertEntry:
    return AlertEntry(
        symbol="ES", type=kind.value, severity=kind.severity, price=price, ref=ref, message="as the API has it",
        key=f"ES:{kind.value}:1", seq=7, at="2026-11-20T15:20:00.000Z", session="rth", contract="ESZ2026",
        trade_date="2026-11-20", data_source="shared", invented=False, params={"tick": 0.25, **params},  # type: ignore[dict-item]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "level", "text", "gesagt"),
    [
        (
            alert(AlertType.IB_BREAK_UP, "IBH", 7011.5, ibHigh=7011.25, otherSideBroken=True), 7011.25,
            "Price traded at 7,011.50, above the initial balance (IBH 7,011.25). Both sides of the initial balance "
            "are broken.",
            "Kurs bei 7,011.50, über der Initial Balance (IBH 7,011.25). Beide Seiten der Initial Balance sind "
            "gebrochen.",
        ),
        (
            alert(AlertType.VA_REJECT_LOW, "VAL", 6990.5, val=6990.0, probeExtreme=6985.25), 6990.0,
            "Price reached 6,985.25, below the prior value area (VAL 6,990.00). A 5-minute bar then closed back inside "
            "at 6,990.50.",
            "Der Kurs erreichte 6,985.25, unter der Value Area des Vortags (VAL 6,990.00). Danach schloss ein "
            "5-Minuten-Balken wieder innerhalb, bei 6,990.50.",
        ),
        (
            alert(AlertType.NAKED_POC, "2026-11-17", 7000.25, level=7000.25), 7000.25,
            "Price traded at 7,000.25, the previously untouched POC of Tue, Nov 17.",
            "Kurs bei 7,000.25, dem bisher unberührten POC vom Di., 17. Nov.",
        ),
        (
            alert(AlertType.POOR_HIGH, "2026-11-17", 7050.75, event="repaired", repairTicks=3, level=7050.0), 7050.0,
            "Price traded at 7,050.75, above the poor high of Tue, Nov 17 (7,050.00).",
            "Kurs bei 7,050.75, über dem Poor High vom Di., 17. Nov. (7,050.00).",
        ),
        (
            alert(AlertType.POOR_LOW, "2026-11-17", 6950.5, event="revisit", repairTicks=0), None,
            "Price traded at 6,950.50, near the poor low of Tue, Nov 17.",
            "Kurs bei 6,950.50, nahe dem Poor Low vom Di., 17. Nov.",
        ),
        (
            alert(AlertType.NAKED_POC, "2026-11-17", 6999.0, level=7000.25, reached=7000.25, observed="bar"), 7000.25,
            "A bar reached 7,000.25, the previously untouched POC of Tue, Nov 17.",
            "Ein Balken erreichte 7,000.25, den bisher unberührten POC vom Di., 17. Nov.",
        ),
        (
            alert(AlertType.IB_BREAK_DOWN, "IBL", 7012.0, level=7011.25, reached=7011.0, observed="bar"), 7011.25,
            "A bar reached 7,011.00, below the initial balance (IBL 7,011.25).",
            "Ein Balken erreichte 7,011.00, unter der Initial Balance (IBL 7,011.25).",
        ),
        (
            alert(AlertType.POOR_LOW, "2026-11-17", 6951.5, event="repaired", level=6950.75, reached=6950.5,
                  observed="bar"), 6950.75,
            "A bar reached 6,950.50, below the poor low of Tue, Nov 17 (6,950.75).",
            "Ein Balken erreichte 6,950.50, unter dem Poor Low vom Di., 17. Nov. (6,950.75).",
        ),
    ],
)  # fmt: skip
def test_an_alert_is_a_sentence(given: AlertEntry, level: float | None, text: str, gesagt: str) -> None:
    assert alert_phrases.level_of(given) == level
    assert alert_phrases.sentence(given, ENGLISH, formatter().price, formatter().day) == text
    assert alert_phrases.sentence(given, GERMAN, formatter("de").price, formatter("de").day) == gesagt


def test_a_kind_of_alert_this_page_does_not_know_is_told_as_the_api_tells_it() -> None:
    newer = alert(AlertType.NAKED_POC, "x", 1.0)
    unknown = AlertEntry(
        **{name: getattr(newer, name) for name in newer.__struct_fields__} | {"type": "later"}
    )
    assert alert_phrases.sentence(unknown, ENGLISH, formatter().price, formatter().day) == "as the API has it"
    assert alert_phrases.event(unknown, ENGLISH) == "later"


def test_figures_of_a_pen() -> None:
    assert formatter().difference(6) == "+6.00"
    assert formatter().difference(-14.25) == "−14.25"
    assert formatter().difference(0) == "0.00"
    assert (formatter().percent(0.084), formatter().percent(-0.001), formatter("de").percent(-1.5)) == (
        "+0.08%",
        "0.00%",
        "−1.50%",
    )
    assert formatter().month("ESZ2026") == "Dec 2026"
    assert formatter().day("2025-11-17") == "Mon, Nov 17, 2025"
    assert formatter().clock.time(1_795_188_000 * 10**9) == "10:20:00 EST"
    assert formatter().clock.mine_too(1_795_188_000 * 10**9) == "Fri, Nov 20 16:20:00 CET"
    assert [left(seconds * 10**9) for seconds in (702, 3909, 0, -5)] == ["11:42", "1:05:09", "0:00", "0:00"]


@pytest.mark.parametrize(
    ("bias", "total", "text"),
    [
        ("balanced", 3, "bullish"),
        ("balanced", -2, "bearish"),
        ("lean_up", 1, "balanced"),
        ("trend_down", 2, "bullish"),
        ("lean_up", 5, ""),  # another degree of the same
        ("balanced", 1, ""),
        ("neutral", 3, ""),
        ("undetermined", 0, ""),
    ],
)
def test_what_the_newest_half_hour_says_against_the_bias(bias: str, total: int, text: str) -> None:
    votes = BiasVotes(last=0, poc=0, value=0, extension=0, one_timeframing=0, total=total)
    found = phrases.doubt(bias, votes, ENGLISH)
    assert text in found
    assert bool(found) == bool(text)
