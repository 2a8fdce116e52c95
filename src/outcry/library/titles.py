"""Texts that name a profile and its prices, for a plot and for a notebook."""

from outcry.library.levels import ProfileLevels
from outcry.library.times import span_text
from outcry.market.units import PRICE_SCALE, fixed_text, price_text

_SESSIONS = {
    "rth": "regular session",
    "overnight": "overnight session",
    "full": "overnight and regular session",
}


def tick_e9_of(profile: ProfileLevels) -> int:
    """Return the tick in units of 10⁻⁹."""
    return round(profile.tick_size * PRICE_SCALE)


def price_of(profile: ProfileLevels, price: float) -> str:
    """Format a price with the decimals of the tick."""
    tick_e9 = tick_e9_of(profile)
    return fixed_text(round(price * PRICE_SCALE / tick_e9), tick_e9)


def title_of(profile: ProfileLevels) -> str:
    """Return the symbol, trade date and session; without them, the contract and the window."""
    if profile.symbol and profile.date:
        named = profile.symbol
        if profile.contract and profile.contract != profile.symbol:
            named += f" ({profile.contract})"
        return f"{named}, {profile.date}, {_SESSIONS[profile.session or 'rth']}"
    return ", ".join(part for part in (profile.contract, span_text(*profile.window_ns)) if part)


def method_of(profile: ProfileLevels) -> str:
    """Return how the profile was computed."""
    tick = price_text(tick_e9_of(profile))
    return f"Method {profile.method}, {profile.bracket_minutes}-minute brackets, {len(profile.rows)} rows of {tick}"
