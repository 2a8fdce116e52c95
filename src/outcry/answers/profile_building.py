"""Build the answer of `GET /api/profile` from the parts of sessions that it counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from outcry.answers import describe
from outcry.answers.profile_levels import PartsOfProfile, ProfilePart, areas_of
from outcry.answers.session_view import SessionView
from outcry.base.timestamps import exact_timestamp
from outcry.market.calendar import SessionKind
from outcry.market.composite import Counted, dated_balances
from outcry.market.profile_settings import ProfileSettings
from outcry.market.session_parts import SessionPart
from outcry.market.volume_statistics import VolumeSums
from outcry.market.windows import Segment, merged
from outcry.wire.answers import number
from outcry.wire.profile import (
    AbsentSession,
    Balance,
    Period,
    ProfileAnswer,
    ProfileSession,
    ProfileSplit,
    ProfileWindow,
    TimeRange,
)


@dataclass(frozen=True, slots=True)
class Split:
    """A piece of a split profile: its half-open time (ns UTC), and its parts of sessions, maybe none."""

    window: Segment
    parts: Sequence[ProfilePart]
    develops: bool


@dataclass(frozen=True, slots=True)
class ProfileSelection:
    """The parts of sessions in a profile, oldest first, at least one; those that are missing; and what was asked for.

    view: the newest session. first, last: trade dates. develops: whether later trades can change the profile.
    anchored: sums of the trades since the anchor of the VWAP, if there is one. left_out: trade dates between the first
    and last whose regular session was not asked for.
    """

    view: SessionView
    settings: ProfileSettings
    parts: Sequence[ProfilePart]
    first: date
    last: date
    develops: bool
    period: Period | None = None
    missing: Sequence[tuple[date, SessionKind]] = ()
    anchored: VolumeSums | None = None
    left_out: Sequence[date] = ()
    splits: Sequence[Split] = ()

    def of(self, parts: Sequence[ProfilePart]) -> PartsOfProfile:
        """Return some of the parts as a profile."""
        return PartsOfProfile(self.view.product, self.settings, parts, self.first == self.last)


def profile_answer(view: SessionView) -> ProfileAnswer:
    """Return the answer of `GET /api/profile` for one session under the default settings."""
    hours = "overnight" if view.kind is SessionKind.ETH else "rth"
    chosen = SessionPart(view.session, merged(view.segments))
    part = ProfilePart(chosen, view.live is None, Counted(view.ladder, ()))
    return chosen_profile(
        ProfileSelection(
            view,
            ProfileSettings(hours=hours),
            [part],
            view.trade_date,
            view.trade_date,
            develops=not part.final,
        )
    )


def chosen_profile(selection: ProfileSelection) -> ProfileAnswer:
    """Return the answer of `GET /api/profile` for any sessions and settings."""
    view, settings, product = selection.view, selection.settings, selection.view.product
    whole = selection.of(selection.parts)
    return ProfileAnswer(
        symbol=product.root, tick_size=number(product.tick_e9), levels=describe.session(view),
        method=describe.method(whole.ladder, settings), window=_window(selection), develops=selection.develops,
        profile=whole.levels(selection.anchored), rows=whole.rows(),
        splits=[_split(selection, split) for split in selection.splits],
    )  # fmt: skip


def _split(selection: ProfileSelection, split: Split) -> ProfileSplit:
    found = selection.of(split.parts) if split.parts else None
    return ProfileSplit(
        from_=exact_timestamp(split.window[0]), to=exact_timestamp(split.window[1]), develops=split.develops,
        profile=found.levels() if found else None, rows=found.rows() if found else [],
    )  # fmt: skip


def _window(selection: ProfileSelection) -> ProfileWindow:
    tick_e9, settings = selection.view.product.tick_e9, selection.settings
    sessions: list[ProfileSession] = []
    areas: list[tuple[date, tuple[int, int]]] = []
    for part in selection.parts:
        found = part.levels(settings)
        shown = areas_of(found, settings, tick_e9)
        sessions.append(
            ProfileSession(
                date=str(part.trade_date), session=part.kind.value, final=part.final, whole=part.part.whole,
                poc=shown["poc"], vah=shown["vah"], val=shown["val"],
                windows=[TimeRange(from_=exact_timestamp(a), to=exact_timestamp(b)) for a, b in part.part.windows],
            )
        )  # fmt: skip
        if part.kind is SessionKind.RTH and part.part.whole:
            areas.append((part.trade_date, (found.val, found.vah)))
    return ProfileWindow(
        session=settings.hours, period=selection.period, from_=str(selection.first), to=str(selection.last),
        contract=selection.view.contract, sessions=sessions,
        missing=[AbsentSession(date=str(day), session=kind.value) for day, kind in selection.missing],
        balances=[
            Balance(from_=str(first), to=str(last), sessions=count)
            for first, last, count in dated_balances(areas, selection.left_out)
        ],
    )  # fmt: skip
