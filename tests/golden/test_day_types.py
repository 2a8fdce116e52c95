"""Day types of real sessions, worked by hand from their half-hours."""

from pathlib import Path

from outcry.access.licences import Grant, Scope
from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings
from outcry.recordings.file_model import ReadOptions

ALL = Scope(user_id=1, grants=(Grant("everyone", "completed", (), None, None),))
#: ES: the 7th went four ticks and one beyond its balance and closed at 0.08 of its range. The 8th is the trend day. The
#: 9th went 14 and 27 ticks beyond and closed in the middle. GC: the 7th went both ways. The 8th opened at 0.14 of its
#: range, went only above its balance, to 1.7 of it, and closed at 0.62.
WANT = {
    "ES": {"2013-10-07": "neutral_extreme", "2013-10-08": "trend_down", "2013-10-09": "neutral"},
    "GC": {"2013-10-07": "neutral", "2013-10-08": "normal_variation"},
}


def days(installation: Installation) -> dict[str, dict[str, str | None]]:
    now_ns = installation.clock.now_ns()
    return {
        root: {
            day.date: day.day_type
            for day in installation.query.history(ALL, root, None, None, now_ns).answer.sessions
        }
        for root in WANT
    }


def test_stored_day_types_follow_the_rules_before_and_after_a_refold(shared: Path, tmp_path: Path) -> None:
    with open_installation(Settings(data=str(tmp_path))) as installation:
        for folder in ("cme/minute/es", "comex/minute/gc"):
            for path in installation.importer.library.expand(shared / "data" / "lean" / folder):
                installation.importer.run(path, 0, ReadOptions(), installation.clock.now_ns())
        assert days(installation) == WANT
        assert sum(done.sessions for done in installation.importer.refold(installation.clock.now_ns())) > 0
        assert days(installation) == WANT
