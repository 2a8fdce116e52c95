"""Build the answers about one session, open or completed.

Each function takes the session as a `SessionView`, which has the same fields in both cases. So live and delayed answers
differ only in the values. A delayed answer has null in every live-only field.
"""

from outcry.answers import describe
from outcry.answers.profile_levels import vwap
from outcry.answers.session_view import SessionView
from outcry.answers.wording import state_text
from outcry.base.timestamps import iso_timestamp
from outcry.market.volume_statistics import VolumeSums, volume_nodes
from outcry.wire.answers import DISCLAIMER, ContextAnswer, LevelsAnswer, number


def levels_answer(view: SessionView) -> LevelsAnswer:
    """Return the answer of `GET /api/levels` for a session."""
    live, tick_e9 = view.live, view.product.tick_e9
    pocs, highs, lows = describe.carried(view.carried(), tick_e9)
    return LevelsAnswer(
        symbol=view.product.root, data_source=view.source, live=live is not None, as_of=as_of(view),
        updated_at=iso_timestamp(live.last_ns) if live else None,
        last_price=number(live.last_ticks * tick_e9) if live else None,
        bias=live.bias.bias.value if live else None,
        developing=describe.developing(view.profile, tick_e9) if live else None,
        prior=describe.value_area(view.reference, tick_e9),
        overnight=describe.high_low(view.overnight, tick_e9) if live else None,
        naked_pocs=pocs, poor_highs=highs, poor_lows=lows,
        playbook=describe.playbook(live, tick_e9) if live else None,
    )  # fmt: skip


def context_answer(view: SessionView) -> ContextAnswer:
    """Return the answer of `GET /api/context` for a session."""
    live, tick_e9 = view.live, view.product.tick_e9
    pocs, highs, lows = describe.carried(view.carried(), tick_e9)
    ladder = view.ladder
    nodes = volume_nodes(ladder.volume)
    return ContextAnswer(
        symbol=view.product.root, data_source=view.source, live=live is not None, as_of=as_of(view),
        updated_at=iso_timestamp(live.last_ns) if live else None,
        state=view.state, reason=state_text(view.state), feed=view.feed, contract=view.contract,
        rolled_from=view.rolled_from, invented=view.simulated, disclaimer=DISCLAIMER,
        method=describe.method(ladder), session=describe.session(view),
        overnight=describe.high_low(view.overnight, tick_e9),
        ib_extensions=describe.session_ib_extensions(view),
        excess_high=view.profile.excess_high, excess_low=view.profile.excess_low,
        vwap=vwap(VolumeSums.of(ladder.volume, ladder.low_ticks), tick_e9),
        high_volume_nodes=[number((ladder.low_ticks + row) * tick_e9) for row in nodes.high],
        low_volume_nodes=[number((ladder.low_ticks + row) * tick_e9) for row in nodes.low],
        bias=live.bias.bias.value if live else None, bias_votes=describe.votes(live.bias.votes) if live else None,
        naked_weekly_pocs=describe.period_pocs(view.period_pocs(), "week", tick_e9),
        naked_monthly_pocs=describe.period_pocs(view.period_pocs(), "month", tick_e9),
        naked_pocs=pocs, poor_highs=highs, poor_lows=lows, damaged_sessions=describe.damaged(view.damaged),
        completeness=describe.completeness(view.incomplete()), instrument=describe.instrument(view.product),
    )  # fmt: skip


def as_of(view: SessionView) -> str | None:
    """Return the trade date of a completed session; None if the session is open."""
    return None if view.live else str(view.trade_date)
