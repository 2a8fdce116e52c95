"""Files as vendors ship them, of products that a user defines: levels over HTTP equal an independent computation.

FESX: minute bars stamped at their end, in any zone, through the weeks in which Europe and the US change their clocks,
with the dirt of real files. NIFTY: running totals of volume. SPY: ticks with fractions, between two ticks of the price
and outside regular hours. Each test writes the file, imports it by the command, and asks the service.
"""

import random
import re
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.vendor_files import level_oracle as oracle
from tests.vendor_files.answers import Day, Expected, check_composite, check_levels, check_profiles
from tests.vendor_files.level_oracle import Bar, Profile, Trade, merged, profile_of
from tests.vendor_files.markets import MINUTE, at, minutes, trades
from tests.vendor_files.service import append, outcry, reasons, serving

BERLIN, KOLKATA, NEW_YORK = "Europe/Berlin", "Asia/Kolkata", "America/New_York"
#: The US changes its clocks on 10 March 2024, Europe on 31 March; 29 March and 1 April are holidays of Eurex.
SPRING = ("2024-03-26", "2024-03-27", "2024-03-28", "2024-04-02", "2024-04-03")
EASTER = [
    f"{day},{name},eurex,closed,,,,,Eurex calendar,2026-11-24,"
    for day, name in (("2024-03-29", "Good Friday"), ("2024-04-01", "Easter Monday"))
]
INDEX = Expected(Fraction(1))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def with_fesx(data: Path) -> None:
    assert outcry(data, "instruments", "add", "FESX").returncode == 0
    append(data / "instruments" / "holidays.csv", *EASTER)
    assert outcry(data, "instruments", "check").returncode == 0


def fesx_days(rng: random.Random, days: tuple[str, ...], price: int = 4980) -> list[Bar]:
    """Return the minutes from 01:10 to 22:00 of Berlin; single minutes have no trade."""
    found = list[Bar]()
    for day in days:
        missing = rng.sample(range(1250), 40)
        found += minutes(rng, at(day, "01:10", BERLIN), at(day, "22:00", BERLIN), price, missing=missing)
        price = found[-1].close + rng.randint(-15, 15)
    return found


def regular(
    rows: list[Bar] | list[Trade], days: tuple[str, ...], hours: tuple[str, str], zone: str
) -> list[Day]:
    """Return the profile and the rows of the regular session of each day."""
    found = list[Day]()
    for day in days:
        start, end = at(day, hours[0], zone), at(day, hours[1], zone)
        found.append((day, profile_of(rows, start, end), [row for row in rows if start <= row.at < end]))
    return found


def end_stamped(rows: list[Bar], zone: str) -> list[str]:
    """Return lines with the END of each bar in a zone."""
    local = ZoneInfo(zone)
    return [
        f"{(bar.at + MINUTE).astimezone(local):%Y-%m-%d %H:%M:%S},"
        f"{bar.open},{bar.high},{bar.low},{bar.close},{bar.volume}"
        for bar in rows
    ]


@pytest.mark.parametrize("zone", [BERLIN, "UTC", "America/Chicago"])
def test_fesx_bars_stamped_at_their_end(data: Path, tmp_path: Path, zone: str) -> None:
    """The composite of three days has each day's overnight session, whose brackets begin again after the night."""
    rows = fesx_days(random.Random(1), SPRING)
    path = tmp_path / "FESXM4_2024.csv"
    path.write_text("\n".join(["time,open,high,low,close,volume", *end_stamped(rows, zone)]) + "\n")
    with_fesx(data)
    refused = outcry(data, "import", path)
    assert refused.returncode == 1
    assert "--tz" in refused.stderr
    made = outcry(data, "import", path, "--tz", zone, "--stamp", "close")
    assert made.returncode == 0, made.stderr
    days = regular(rows, SPRING, ("09:00", "17:30"), BERLIN)
    with serving(data) as service:
        check_levels(service, "FESX", days, INDEX)
        check_levels(service, "FESXM24", days, INDEX)
        check_profiles(service, "FESX", days, INDEX)
        parts = list[Profile]()
        for before, day in (SPRING[0:2], SPRING[1:3], SPRING[2:4]):
            evening = profile_of(rows, at(before, "17:30", BERLIN), at(before, "22:00", BERLIN))
            morning = profile_of(rows, at(day, "01:10", BERLIN), at(day, "09:00", BERLIN))
            parts += [evening, morning, profile_of(rows, at(day, "09:00", BERLIN), at(day, "17:30", BERLIN))]
        window = {"from_": SPRING[1], "to": SPRING[3], "session": "full"}
        answer = check_composite(service, "FESX", merged(parts), INDEX, row=3, **window)
        assert answer["window"]["missing"] == []


def test_a_dirty_fesx_file_of_two_contracts(data: Path, tmp_path: Path) -> None:
    """June overtakes March on 14 March, so from the 15th the levels are June's alone, of all its sessions.

    The file has a BOM, decimal commas, semicolons, both line ends, dates of Germany, rows in disorder and twice, rows
    without volume, a high below its low, prices of 0 and of a digit too many, text between and after the rows, and ends
    inside a row. Every row that is left out has a line in the report.
    """
    rng = random.Random(2)
    names = ("2024-03-12", "2024-03-13", "2024-03-14", "2024-03-15", "2024-03-18", "2024-03-19")
    march, june = fesx_days(rng, names[:3], 4930), fesx_days(rng, names, 4970)
    late = at("2024-03-14", "00:00", BERLIN)
    march = [Bar(*_prices(bar), bar.volume * 9 if bar.at < late else 1 + bar.volume // 9) for bar in march]
    lines, wrong = dirty(rng, march, june)
    path = tmp_path / "Eurex_1min_2024.csv"
    path.write_bytes(b"\xef\xbb\xbf" + "".join(lines).encode())
    with_fesx(data)
    options = "--tz", BERLIN, "--stamp", "close", "--decimal", "comma"
    refused = outcry(data, "import", path, *options)
    assert refused.returncode == 1
    assert re.search(r"line \d[\d,]*: 8 columns are expected.*--bad-rows skip", refused.stderr), (
        refused.stderr
    )
    assert outcry(data, "import", "--list", "--output", "json").stdout.strip() == "[]"
    made = outcry(data, "import", path, *options, "--bad-rows", "skip")
    assert made.returncode == 0, made.stderr
    gone = {bar for _, bar in wrong if bar is not None}
    left_out = reasons(made)
    assert left_out == {"invalid rows": len(wrong), "bars without volume": 30}
    for number, _ in wrong:
        assert f"{path.name}, line {number:,}: " in made.stderr
    rows = [bar for bar in june if bar not in gone]
    days = regular(rows, names, ("09:00", "17:30"), BERLIN)
    with serving(data) as service:
        check_levels(service, "FESX", days, INDEX)
        check_profiles(service, "FESX", days[3:], INDEX)
        check_profiles(service, "FESXM4", days, INDEX)
        check_profiles(service, "FESXH4", regular(march, names[:3], ("09:00", "17:30"), BERLIN), INDEX)
        assert service.get("/api/context", symbol="FESX")["rolledFrom"] == "FESXH2024"


def _prices(bar: Bar) -> tuple[datetime, int, int, int, int]:
    return bar.at, bar.open, bar.high, bar.low, bar.close


def dirty(
    rng: random.Random, march: list[Bar], june: list[Bar]
) -> tuple[list[str], list[tuple[int, Bar | None]]]:
    """Return the lines of the file, and the numbers of lines to leave out, with the bars that are lost with them."""
    cells = [
        (bar, name)
        for bar, name in ((*((bar, "FESXH24") for bar in march), *((bar, "FESXM24") for bar in june)))
    ]
    cells.sort(key=lambda cell: (cell[0].at, cell[1]))
    rows: list[tuple[str, Bar | None, str]] = [(german(bar, name), bar, "") for bar, name in cells]
    own = iter(
        rng.sample([index for index, (bar, name) in enumerate(cells) if name == "FESXM24"][50:-50], 16)
    )

    def change(text: str, *prices: str) -> None:
        """Replace open, high, low and close of a row of June."""
        index = next(own)
        old, bar, _ = rows[index]
        parts = old.split(";")
        rows[index] = (
            ";".join(
                (*parts[:3], *(each or keep for each, keep in zip(prices, parts[3:7], strict=True)), parts[7])
            ),
            bar,
            text,
        )

    for _ in range(2):
        change("wrong", "0,00", "0,00", "0,00", "0,00")
        change("wrong", "49720,00", "49730,00", "49710,00", "49720,00")
        change("wrong", "", "1,00", "", "")
        change("wrong", "n/a", "", "", "")
    for _ in range(4):
        index = next(own)
        rows[index : index + 1] = [rows[index], (rows[index][0], None, "wrong")]
    for index in sorted(rng.sample(range(100, len(rows) - 100), 25), reverse=True):
        rows[index], rows[index + 3] = rows[index + 3], rows[index]
    used = {bar.at for bar in june}
    empty = [bar.at + MINUTE for bar in june if bar.at + MINUTE not in used][:30]
    rows += [(german(Bar(start, 4970, 4970, 4970, 4970, 0), "FESXM24"), None, "") for start in empty]
    rows.insert(1000, ("--- page 2 ---", None, "wrong"))
    rows.append(("Total;12345", None, "wrong"))
    rows.append(("19.03.2024;22:01:00;FESXM24;4971,00;49", None, "wrong"))
    head = "Date;Time;Contract;Open;High;Low;Close;Volume\r\n"
    lines = [head, *(text + ("\r\n" if index % 3 else "\n") for index, (text, _, _) in enumerate(rows))]
    lines[-1] = lines[-1].rstrip()
    wrong = [(index + 2, bar) for index, (_, bar, mark) in enumerate(rows) if mark]
    return lines, wrong


def german(bar: Bar, name: str) -> str:
    end = (bar.at + MINUTE).astimezone(ZoneInfo(BERLIN))
    prices = ";".join(f"{price},00" for price in (bar.open, bar.high, bar.low, bar.close))
    return f"{end:%d.%m.%Y};{end:%H:%M:%S};{name};{prices};{bar.volume}"


INDIA = ("2024-01-15", "2024-01-16", "2024-01-17", "2024-01-18")
FIVE_PAISE = Expected(Fraction(1, 20))


def with_nifty(data: Path) -> None:
    assert outcry(data, "instruments", "add", "NIFTY").returncode == 0


def test_nifty_bars_with_running_totals(data: Path, tmp_path: Path) -> None:
    """The total starts again each day at 09:15, and a day without much trade ends below the first minute of the next.

    Missing minutes add their volume to the next one, because the file does not tell when it traded.
    """
    rng, rows, lines = random.Random(3), list[Bar](), list[str]()
    price = 22_000 * 20
    for number, day in enumerate(INDIA):
        total = 0
        whole = minutes(rng, at(day, "09:15", KOLKATA), at(day, "15:30", KOLKATA), price, step=9)
        for minute, bar in enumerate(whole):
            volume = bar.volume * 50 if number != 1 else 50
            volume = 50_000 if number == 2 and minute == 0 else volume
            total += volume
            if minute % 83 != 5:
                local = bar.at.astimezone(ZoneInfo(KOLKATA))
                prices = ",".join(f"{each / 20:.2f}" for each in (bar.open, bar.high, bar.low, bar.close))
                lines.append(f"NIFTY24JANFUT,{local:%Y%m%d},{local:%H:%M},{prices},{total}")
                rows.append(Bar(*_prices(bar), total))
        price = whole[-1].close
    rows = each_minute(rows)
    path = tmp_path / "NIFTYF24_totals.csv"
    path.write_text("Name,Date,Time,Open,High,Low,Close,Volume\n" + "\n".join(lines) + "\n")
    with_nifty(data)
    options = "--tz", KOLKATA, "--stamp", "open"
    refused = outcry(data, "import", path, *options)
    assert "like a running total" in refused.stderr
    assert "--volume total" in refused.stderr
    made = outcry(data, "import", path, *options, "--volume", "total")
    assert made.returncode == 0, made.stderr
    days = regular(rows, INDIA, ("09:15", "15:30"), KOLKATA)
    with serving(data) as service:
        check_levels(service, "NIFTY", days, FIVE_PAISE)
        check_profiles(service, "NIFTY", days, FIVE_PAISE)
        found = merged([profile for _, profile, _ in days])
        check_composite(service, "NIFTY", found, FIVE_PAISE, row=20, from_=INDIA[0], to=INDIA[-1])


def each_minute(totals: list[Bar]) -> list[Bar]:
    """Subtract the total before it from each one of the same day."""
    found = list[Bar]()
    for index, bar in enumerate(totals):
        first = index == 0 or totals[index - 1].at.date() != bar.at.date()
        found.append(Bar(*_prices(bar), bar.volume - (0 if first else totals[index - 1].volume)))
    return found


def test_nifty_ticks_with_running_totals(data: Path, tmp_path: Path) -> None:
    """A snapshot each second or two repeats the last trade if nothing traded; some arrive in disorder."""
    rng, rows, lines = random.Random(4), list[Trade](), list[tuple[datetime, str]]()
    for day in INDIA[:2]:
        total = 0
        moves = trades(
            rng,
            at(day, "09:15", KOLKATA),
            at(day, "15:30", KOLKATA),
            440_000,
            every_s=4,
            sizes=(50, 100, 750),
        )
        for trade, _ in moves:
            total += trade.size
            rows.append(trade)
            for _ in range(rng.choice((1, 1, 1, 2))):
                stamp = f"{trade.at.astimezone(ZoneInfo(KOLKATA)):%d-%m-%Y %H:%M:%S.%f}"
                lines.append((trade.at, f"{stamp},{trade.price / 20:.2f},{rng.randrange(9)},{total}"))
    for index in rng.sample(range(len(lines) - 1), 40):
        lines[index], lines[index + 1] = lines[index + 1], lines[index]
    path = tmp_path / "NIFTY-I.csv"
    path.write_text("\n".join(["timestamp,ltp,ltq,volume_traded", *(text for _, text in lines)]) + "\n")
    with_nifty(data)
    options = "--contract", "NIFTYF2024", "--tz", KOLKATA
    refused = outcry(data, "import", path, *options)
    assert "--dates day-first" in refused.stderr
    made = outcry(data, "import", path, *options, "--dates", "day-first", "--volume", "total")
    assert made.returncode == 0, made.stderr
    assert reasons(made) == {"rows without new volume": len(lines) - len(rows)}
    days = regular(rows, INDIA[:2], ("09:15", "15:30"), KOLKATA)
    with serving(data) as service:
        check_levels(service, "NIFTY", days, FIVE_PAISE)
        check_profiles(service, "NIFTY", days, FIVE_PAISE)


SPY_PRODUCT = (
    "root,name,exchange,sector,parent,tick,multiplier,size_step,unit,months,serial,skipped,zone,settle,expiry_rule,"
    "notice_rule,roll_sessions,projectx,aliases,source,checked_on,note\n"
    "SPY,S&P 500 ETF,ARCA,shares,,0.01,1,0.0001,points,,,,America/New_York,,,,,,,issuer,2026-11-24,\n"
)
SPY_HOURS = (
    "roots,variant,days,valid_from,valid_to,globex,rth,source,checked_on,note\n"
    "SPY,,Mon-Fri,2012-01-01,,04:00-20:00,09:30-16:00,exchange,2026-11-24,\n"
)
SPY_HOLIDAYS = (
    "date,name,applies_to,day,opens,closes,rth_opens,rth_closes,source,checked_on,note\n"
    "2024-11-28,Thanksgiving,shares,closed,,,,,exchange,2026-11-24,\n"
    "2024-11-29,day after Thanksgiving,shares,open,,17:00,,13:00,exchange,2026-11-24,\n"
)
CENTS = Expected(Fraction(1, 100), 10_000)


def test_spy_ticks(data: Path, tmp_path: Path) -> None:
    """Ten-thousandths of shares, prices between two ticks, and a half day. A VWAP starts in the middle of a session.

    Trades between two ticks, at a tenth of a cent, count in no level; the import counts them. Two files share an hour
    of trades, which count once.
    """
    tables = data / "instruments"
    tables.mkdir(parents=True)
    for name, text in (("products", SPY_PRODUCT), ("sessions", SPY_HOURS), ("holidays", SPY_HOLIDAYS)):
        (tables / f"{name}.csv").write_text(text)
    rng, rows, lines, between = random.Random(5), list[Trade](), list[tuple[datetime, str]](), 0
    for day, end in (("2024-11-27", "20:00"), ("2024-11-29", "17:00")):
        sizes = (1_000_000, 2_000_000, 70_000, 10_000, 333, 1)
        moves = trades(
            rng, at(day, "04:00", NEW_YORK), at(day, end, NEW_YORK), 59_800, every_s=3, sizes=sizes
        )
        for trade, nanos in moves:
            text = f"{trade.at:%Y-%m-%dT%H:%M:%S.%f}{nanos:03}Z"
            between += rng.random() < 0.05 and _sub_penny(lines, trade, text)
            rows.append(trade)
            lines.append(
                (trade.at, f"{text},{trade.price / 100:.2f},{trade.size / 10_000:.4f},{trade.side},@ T")
            )
    head, noon = "timestamp,price,size,side,conditions", at("2024-11-27", "12:00", NEW_YORK)
    parts = (
        ("SPY_a.csv", [text for when, text in lines if when < noon]),
        ("SPY_b.csv", [text for when, text in lines if when >= noon - timedelta(hours=1)]),
    )
    for name, texts in parts:
        (tmp_path / name).write_text("\n".join([head, *texts]) + "\n")
        made = outcry(data, "import", tmp_path / name)
        assert made.returncode == 0, made.stderr
    whole = regular(rows, ("2024-11-27",), ("09:30", "16:00"), NEW_YORK)
    short = regular(rows, ("2024-11-29",), ("09:30", "13:00"), NEW_YORK)
    with serving(data) as service:
        check_levels(service, "SPY", whole + short, CENTS)
        check_profiles(service, "SPY", whole + short, CENTS)
        found = merged([whole[0][1], short[0][1]])
        window = {"from_": "2024-11-27", "to": "2024-11-29", "delta": "1"}
        answer = check_composite(service, "SPY", found, CENTS, row=5, **window)
        assert answer["profile"]["delta"]["total"] == CENTS.size(sum(found.delta.values()))
        deltas = oracle.in_rows({tick: found.delta.get(tick, 0) for tick in found.volumes}, 5)
        assert {row["price"]: row["delta"] for row in answer["rows"]} == {
            CENTS.price(5 * number): CENTS.size(delta) for number, delta in deltas.items()
        }
        anchor = "2024-11-29T16:00:00Z"
        later = profile_of(rows, datetime.fromisoformat(anchor), at("2024-11-29", "13:00", NEW_YORK))
        anchored = service.get("/api/profile", symbol="SPY", date="2024-11-29", anchor=anchor)
        mean, _ = oracle.vwap(later.volumes)
        assert abs(anchored["profile"]["anchoredVwap"]["price"] - CENTS.price(mean)) < 3e-9
        quality = service.get("/api/profile", symbol="SPY", date="2024-11-29")["levels"]["data"]
        assert quality["offTick"] > 0
    assert between > 0


def _sub_penny(lines: list[tuple[datetime, str]], trade: Trade, text: str) -> bool:
    lines.append((trade.at, f"{text},{trade.price / 100 + 0.001:.4f},5,N,@ I"))
    return True
