"""The levels of a profile on a symbol's page: names, styles, and the rows they are in."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from outcry.web.formatter import Formatter
from outcry.web.language import Words
from outcry.web.number_format import price_e9, price_text
from outcry.web.symbol.outlook import Outlook
from outcry.web.symbol.profile_choice import VwapLines
from outcry.web.symbol.profile_drawing import Level, is_single
from outcry.wire.answers import Vwap
from outcry.wire.profile import ProfileAnswer


def levels_of(outlook: Outlook, answer: ProfileAnswer, vwap: VwapLines, formatter: Formatter) -> list[Level]:
    """Return the levels to list, and to draw if they are near the rows."""
    profile, words = answer.profile, formatter.clock.words
    found = [
        Level(profile.poc, "poc", "POC", "POC"),
        Level(profile.vah, "va", "VAH", "VAH"),
        Level(profile.val, "va", "VAL", "VAL"),
        Level(profile.vpoc, "vpoc", "VPOC", "VPOC"),
        Level(profile.volume_vah, "volume-va", "vVAH", words("Volume VAH")),
        Level(profile.volume_val, "volume-va", "vVAL", words("Volume VAL")),
        *_balance_levels(answer, words),
    ]
    if profile.excess_high:
        found.append(Level(profile.high, "excess", "", words("Excess at the high")))
    if profile.excess_low:
        found.append(Level(profile.low, "excess", "", words("Excess at the low")))
    if profile.vwap is not None and vwap != "off":
        found += _vwap_levels(profile.vwap, bands=vwap == "bands")
    if profile.anchored_vwap is not None:
        found.append(Level(profile.anchored_vwap.price, "anchored", "aVWAP", words("Anchored VWAP")))
    found += _naked(outlook, formatter)
    if outlook.levels.last_price is not None:
        found.append(Level(outlook.levels.last_price, "last", words("Last"), words("Last")))
    return found


def _balance_levels(answer: ProfileAnswer, words: Words) -> list[Level]:
    profile = answer.profile
    if profile.ib_high is None or profile.ib_low is None:
        return []
    found = [Level(profile.ib_high, "ib", "IBH", "IBH"), Level(profile.ib_low, "ib", "IBL", "IBL")]
    for each in profile.ib_extensions:
        for price, reached, name in (
            (each.up, each.up_reached, words("Upper IB extension %(percent)s%%")),
            (each.down, each.down_reached, words("Lower IB extension %(percent)s%%")),
        ):
            if reached:
                label = name % {"percent": each.percent}
                found.append(Level(price, "extension", f"IB {each.percent}%", label))
    return found


def _vwap_levels(vwap: Vwap, *, bands: bool) -> list[Level]:
    found = [Level(vwap.price, "vwap", "VWAP", "VWAP")]
    for band in vwap.bands if bands else ():
        for price, sign in ((band.upper, "+"), (band.lower, "−")):
            found.append(Level(price, "band", f"{sign}{band.deviations}σ", f"VWAP {sign}{band.deviations}σ"))
    return found


def _naked(outlook: Outlook, formatter: Formatter) -> Iterator[Level]:
    """Yield the naked POCs of weeks and months. Those that today's session traded are not naked any more."""
    words = formatter.clock.words
    for pocs, short, naked, spent in (
        (outlook.context.naked_weekly_pocs, "W", words("Naked weekly POC"), words("Weekly POC")),
        (outlook.context.naked_monthly_pocs, "M", words("Naked monthly POC"), words("Monthly POC")),
    ):
        for poc in pocs:
            day = formatter.date(poc.from_)
            if outlook.touched_today(poc.price):
                yield Level(
                    poc.price, "prior", f"{short} {day}", f"{spent}, {day} ({words('touched today')})"
                )
            else:
                yield Level(poc.price, "naked", f"n{short} {day}", f"{naked}, {day}")


def row_marks(answer: ProfileAnswer, levels: Sequence[Level], words: Words) -> Mapping[float, list[str]]:
    """Return the names of the levels in each row of the table, by the row's price."""
    tick_e9, row_ticks = price_e9(answer.tick_size), answer.method.row_ticks
    row_of = {price_e9(row.price) // tick_e9 // row_ticks: row.price for row in answer.rows}
    found: dict[float, list[str]] = {}

    def mark(price: float, name: str) -> None:
        row = row_of.get(price_e9(price) // tick_e9 // row_ticks)
        if row is not None:
            found.setdefault(row, []).append(name)

    for level in levels:
        mark(level.price, level.name)
    for price in answer.profile.high_volume_nodes:
        mark(price, words("High-volume node"))
    for price in answer.profile.low_volume_nodes:
        mark(price, words("Low-volume node"))
    for row in answer.rows:
        if is_single(row, answer):
            found.setdefault(row.price, []).append(words("Single print"))
    return found


def any_price(outlook: Outlook) -> Callable[[float], str]:
    """Return the format of prices that need not be on a tick, such as a VWAP: rounded as the exchange's prices."""
    tick_e9, notation = outlook.product.tick_e9, outlook.chart.notation

    def text(value: float) -> str:
        if notation.kind == "32nds":
            return price_text(round(price_e9(value) / tick_e9) * tick_e9 / 1e9, notation)
        return price_text(value, notation)

    return text
