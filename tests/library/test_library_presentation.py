"""A profile as a table, as HTML and as a plot; its session, volume value area and day type. Values by hand."""

import datetime as dt
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import outcry

mpl.use("Agg")
MINUTE = 60 * 10**9
OPEN = pd.Timestamp("2013-10-08T09:30", tz="America/New_York").value


def day(*brackets: tuple[float, float, float, float], start: int = OPEN) -> dict[str, list[Any]]:
    """Return one bar per half-hour (open, high, low, close) with a volume of 10, at its first minute."""
    names = ("open", "high", "low", "close")
    columns: dict[str, list[Any]] = {name: [bar[at] for bar in brackets] for at, name in enumerate(names)}
    return {
        "ts": [start + 30 * n * MINUTE for n in range(len(brackets))],
        **columns,
        "volume": [10] * len(brackets),
    }


def of_es(data: Any, **terms: Any) -> outcry.Profile:
    return outcry.profile(data, **{"symbol": "ES", "date": "2013-10-08", **terms})


TRADES = {"ts": [OPEN, OPEN + 1, OPEN + 30 * MINUTE, OPEN + 31 * MINUTE], "price": [10.0, 10.25, 10.25, 10.5],
          "size": [5, 30, 5, 60]}  # fmt: skip


# -- levels


def test_the_volume_value_area() -> None:
    """5, 35 and 60 of 100 lots: 70 are needed, and 60 at the POC with the pair below are 100. By TPOs 10.25 has two.

    The value area by TPOs needs 2.8 of 4: 2 at 10.25, and the tie of one above and one below goes up: 3.
    """
    found = of_es(TRADES)
    assert (found.vpoc, found.volume_val, found.volume_vah) == (10.5, 10.0, 10.5)
    assert (found.poc, found.val, found.vah) == (10.25, 10.25, 10.5)
    assert (found.open, found.close) == (10.0, 10.5)


def test_the_volume_value_area_of_closes() -> None:
    """py-market-profile adds single rows: 60, then 35, is 95 of 100 lots."""
    found = of_es(TRADES, method="py_market_profile")
    assert (found.volume_val, found.volume_vah) == (found.val, found.vah) == (10.25, 10.5)
    assert (found.open, found.close, found.day_type) == (10.0, 10.5, None)


def test_the_overnight_session_has_its_own_hours() -> None:
    """It runs from 16:15 on 7 October (without the break) to 09:30 on 8 October. Its letters start with it."""
    before = pd.Timestamp("2013-10-07T16:35", tz="America/New_York").value
    times = [before - 20 * MINUTE, before, OPEN - MINUTE, OPEN]
    data = {"ts": times, "price": [1.0, 10.0, 11.0, 12.0], "size": [1, 2, 3, 4]}
    night = of_es(data, session="overnight")
    assert (night.low, night.high, night.rows[-1].letters) == (10.0, 11.0, "A")
    assert (night.ib_low, night.ib_high, night.day_type) == (10.0, 10.0, None)
    both = of_es(data, session="full")
    assert (both.low, both.high, sum(row.volume for row in both.rows)) == (10.0, 12.0, 9)
    assert (
        both.window_ns[1] - both.window_ns[0] == (24 * 60 - 15) * MINUTE
    )  # the first 15 minutes are a break
    assert len(set(both.rows[0].letters) - set(both.rows[-1].letters)) == 1
    rth = of_es(data)
    assert (rth.low, rth.high, rth.session) == (12.0, 12.0, "rth")


@pytest.mark.parametrize(
    ("brackets", "wanted"),
    [
        # the first hour trades 100 to 110 and nothing beyond
        (((105, 110, 100, 105), (105, 108, 102, 105), (105, 107, 103, 104)), "normal"),
        # 100 to 104, then up to 107 only: below twice the balance
        (((102, 104, 100, 102), (102, 104, 101, 103), (103, 107, 103, 105)), "normal_variation"),
        # beyond both sides of 100 to 104, close in the middle and at the high
        (((102, 104, 100, 102), (102, 104, 100, 103), (103, 106, 99, 103)), "neutral"),
        (((102, 104, 100, 102), (102, 104, 100, 103), (103, 106, 99, 106)), "neutral_extreme"),
        # 2 wide in the first hour, opens at the low, every row in the middle twice, closes at the high
        (((100, 102, 100, 102), (102, 102, 100, 102), (102, 104, 101, 104), (104, 105, 102, 105), (105, 106, 104, 106)),
         "trend_up"),
        (((106, 106, 104, 104), (104, 106, 104, 104), (104, 105, 102, 102), (102, 104, 101, 101), (101, 102, 100, 100)),
         "trend_down"),
    ],
)  # fmt: skip
def test_day_types(brackets: tuple[tuple[float, float, float, float], ...], wanted: str) -> None:
    assert of_es(day(*brackets)).day_type == wanted


def test_a_quiet_day_needs_the_average_range() -> None:
    """A range of 10 is at most 60 % of 20."""
    quiet = day((105, 110, 100, 105), (105, 108, 102, 105))
    assert of_es(quiet).day_type == "normal"
    assert of_es(quiet, average_range=20).day_type == "non_trend"
    assert of_es(quiet, average_range=16).day_type == "normal"
    assert of_es(TRADES).day_type == "normal"
    assert of_es(TRADES, bracket_minutes=15).day_type is None


def test_a_profile_says_what_it_is_of() -> None:
    found = of_es(TRADES, symbol="ESZ3")
    assert (found.symbol, found.date, found.session, found.contract) == (
        "ESZ3",
        dt.date(2013, 10, 8),
        "rth",
        None,
    )
    assert found.window_ns == (OPEN, OPEN + 405 * MINUTE)
    assert found.bracket_minutes == 30
    by_hand = outcry.profile(TRADES, tick_size=0.25, window=(OPEN, OPEN + 40 * MINUTE))
    assert (by_hand.symbol, by_hand.date, by_hand.session) == (None, None, None)


# -- tables


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_rows_as_a_table(library: str) -> None:
    kind = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}[library]
    table = of_es(TRADES).to_frame(library)
    assert isinstance(table, kind)
    rows = (
        table.to_dict("records")
        if library == "pandas"
        else table.to_dicts()
        if library == "polars"
        else table.to_pylist()
    )
    assert rows == [
        {"price": 10.5, "letters": "B", "tpos": 1, "volume": 60},
        {"price": 10.25, "letters": "AB", "tpos": 2, "volume": 35},
        {"price": 10.0, "letters": "A", "tpos": 1, "volume": 5},
    ]


def test_a_table_is_of_a_library_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pandas", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    assert isinstance(of_es(TRADES).to_frame(), pl.DataFrame)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(
        ImportError, match=r"A table needs pandas, Polars or pyarrow\. Run: pip install pandas"
    ):
        of_es(TRADES).to_frame()


# -- HTML


class Parsed(HTMLParser):
    """Elements, texts and attributes of a document, and the elements that are still open."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_notebook_shows_a_table_that_a_screen_reader_reads() -> None:
    source = of_es(TRADES)._repr_html_()
    parsed = Parsed(source)
    assert parsed.open == []
    assert parsed.texts[:5] == ["ES, 2013-10-08, regular session", "Level", "Price", "POC", "10.25"]
    assert "10.50 B\n10.25 AB\n10.00 A" in parsed.texts
    assert parsed.tags.count("caption") == 1
    rows = parsed.tags.count("tr") - 1
    assert parsed.attributes.count(("scope", "row")) == rows == 11
    assert parsed.attributes.count(("scope", "col")) == 2
    assert {name for name, _ in parsed.attributes} == {"scope", "style"}
    assert len(source) < 4_000


def test_text_of_a_profile_is_escaped() -> None:
    bad = "<script>alert('1')</script>\"&"
    found = replace(
        of_es(TRADES),
        symbol=bad,
        contract=bad,
        day_type=bad,
        rows=[replace(of_es(TRADES).rows[0], letters=bad)],
    )
    parsed = Parsed(found._repr_html_())
    assert "script" not in parsed.tags
    assert sum(bad in text for text in parsed.texts) == 3


def test_html_stays_small() -> None:
    wide = {"ts": [OPEN, OPEN + 1], "price": [1000.0, 2000.0], "size": [1, 1]}
    source = of_es(wide)._repr_html_()
    assert len(source) < 3_000
    assert "details" not in Parsed(source).tags


# -- plots


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


@pytest.fixture
def drawn() -> Any:
    axes = of_es(TRADES).plot()
    yield axes
    mpl.pyplot.close(axes.figure)


def test_a_plot_names_symbol_date_session_and_method(drawn: Any) -> None:
    title = drawn.get_title(loc="left")
    assert title == "ES, 2013-10-08, regular session\nMethod dalton, 30-minute brackets, 3 rows of 0.25"


def test_a_plot_has_a_legend_of_what_it_shows(drawn: Any) -> None:
    names = [text.get_text() for text in drawn.get_legend().get_texts()]
    assert sorted(names) == ["Initial balance", "POC", "VAH, VAL", "Value area", "Volume", "Volume POC"]


def test_the_lines_of_a_plot_are_at_the_levels(drawn: Any) -> None:
    found = of_es(TRADES)
    lines = {line.get_label(): line for line in drawn.lines}
    assert set(lines["POC"].get_ydata()) == {found.poc}
    assert set(lines["Volume POC"].get_ydata()) == {found.vpoc}
    assert list(lines["Initial balance"].get_ydata()) == [found.ib_low - 0.125, found.ib_high + 0.125]
    for name in ("POC 10.25", "VAH 10.50", "VAL 10.25", "VPOC 10.50", "IB high 10.50", "IB low 10.00"):
        assert name in texts(drawn)


def test_names_of_levels_do_not_overlap(drawn: Any) -> None:
    renderer = drawn.figure.canvas.get_renderer()
    drawn.figure.canvas.draw()
    boxes = [text.get_window_extent(renderer) for text in drawn.texts if len(text.get_text()) > 2]
    centres = sorted((box.y0 + box.y1) / 2 for box in boxes)
    assert len(boxes) == 8
    assert all(after - before > 5 for before, after in pairwise(centres))


def test_a_plot_of_a_window_names_its_times() -> None:
    axes = outcry.profile(TRADES, tick_size=0.25, window=(OPEN, OPEN + 40 * MINUTE)).plot()
    assert axes.get_title(loc="left").startswith("2013-10-08T13:30:00Z to 2013-10-08T14:10:00Z\n")
    mpl.pyplot.close(axes.figure)


def test_a_plot_without_brackets_has_no_initial_balance() -> None:
    axes = of_es(TRADES, method="lean").plot()
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "Initial balance" not in names
    assert not [text for text in texts(axes) if re.match("IB", text)]
    mpl.pyplot.close(axes.figure)


def test_a_plot_goes_into_given_axes() -> None:
    figure, axes = mpl.pyplot.subplots()
    assert of_es(TRADES).plot(axes) is axes
    assert len(figure.axes) == 1
    mpl.pyplot.close(figure)


def test_the_first_plot_takes_two_lines(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame(TRADES).assign(ts=lambda f: pd.to_datetime(f["ts"], utc=True))
    frame.rename(columns={"ts": "timestamp"}).to_parquet(tmp_path / "es.parquet")
    monkeypatch.chdir(tmp_path)
    code = 'import outcry\naxes = outcry.profile("es.parquet", symbol="ES", date="2013-10-08").plot()'
    made: dict[str, Any] = {"np": np}
    exec(code, made)
    assert "POC 10.25" in texts(made["axes"])
    mpl.pyplot.close(made["axes"].figure)
