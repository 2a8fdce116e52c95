"""One example of each answer for the OpenAPI document. The figures are of a simulated session, not of a real day."""

from outcry.wire.alerts import Alert, AlertEntry, AlertsAnswer, AlertsHistoryAnswer
from outcry.wire.answers import (
    COMPLETE_RULE,
    DISCLAIMER,
    Answer,
    Completeness,
    ContextAnswer,
    DataQuality,
    DatedLevel,
    HistoryAnswer,
    Hole,
    IbExtension,
    LevelsAnswer,
    Method,
    MissingSession,
    PriceRange,
    PriorLevels,
    ProfileAnswer,
    ProfileRow,
    SessionLevels,
    SymbolsAnswer,
    SymbolState,
)
from outcry.wire.chart import (
    ChartAnswer,
    ChartBracket,
    ChartSession,
    NightProfile,
    Notation,
    PathPoint,
)

_DAY = "2026-01-02"
_METHOD = Method(
    preset="dalton",
    bracket_minutes=30,
    value_area="70 %, two rows at a time",
    poc_tie="nearest the centre",
    row_ticks=1,
    vpoc_source="trades",
)
_SESSION = SessionLevels(
    contract="ESH2026",
    date=_DAY,
    session="rth",
    final=True,
    open="2026-01-02T14:30:00.000Z",
    close="2026-01-02T21:15:00.000Z",
    short_session=False,
    poc=6900.25,
    vah=6912.5,
    val=6889.75,
    vpoc=6901.0,
    volume_vah=6913.0,
    volume_val=6890.0,
    high=6921.75,
    low=6880.5,
    open_price=6895.0,
    close_price=6908.25,
    ib_high=6905.5,
    ib_low=6884.0,
    ib_complete=True,
    poc_candidates=[6900.25],
    poor_high=True,
    poor_low=False,
    upper_tail_ticks=0,
    lower_tail_ticks=6,
    single_prints=[PriceRange(low=6880.5, high=6882.0)],
    day_type="normal_variation",
    day_type_final=True,
    open_type="open_auction_in",
    open_type_final=True,
    data=DataQuality(
        source="dbn",
        invented=False,
        quality="ticks",
        complete=True,
        rows=412_345,
        volume=1_204_511,
        off_tick=0,
        out_of_order=0,
        first="2026-01-02T14:30:00.003Z",
        last="2026-01-02T21:14:59.871Z",
    ),
)
_POC = DatedLevel(price=6900.25, date=_DAY)
_HIGH = DatedLevel(price=6921.75, date=_DAY)
_SAID = "ES traded at 6912, at the upper edge of prior value (VAH 6912.5)."

ANSWERS: dict[str, Answer] = {
    "LevelsAnswer": LevelsAnswer(
        symbol="ES",
        data_source="delayed",
        live=False,
        as_of=_DAY,
        updated_at=None,
        last_price=None,
        bias=None,
        developing=None,
        prior=PriorLevels(poc=6900.25, vah=6912.5, val=6889.75),
        overnight=None,
        naked_pocs=[_POC],
        poor_highs=[_HIGH],
        poor_lows=[],
        playbook=None,
    ),
    "AlertsAnswer": AlertsAnswer(
        updated_at="2026-01-05T15:04:06.020Z",
        count=1,
        alerts=[
            Alert(symbol="ES", type="va-test-high", severity="info", price=6912.0, ref="VAH", message=_SAID)
        ],
    ),
    "AlertsHistoryAnswer": AlertsHistoryAnswer(
        count=1,
        alerts=[
            AlertEntry(
                symbol="ES",
                type="va-test-high",
                severity="info",
                price=6912.0,
                ref="VAH",
                message=_SAID,
                key="ES:va-test-high:1767625445123",
                seq=41,
                at="2026-01-05T15:04:05.123Z",
                session="rth",
                contract="ESH2026",
                trade_date="2026-01-05",
                data_source="shared",
                invented=True,
                params={
                    "level": 6912.5,
                    "reached": 6912,
                    "observed": "trade",
                    "vah": 6912.5,
                    "val": 6889.75,
                    "poc": 6900.25,
                    "tolTicks": 2,
                    "approach": "inside",
                },
                recorded_at="2026-01-05T15:04:05.310Z",
            )
        ],
        next_before=None,
    ),
    "SymbolsAnswer": SymbolsAnswer(
        count=1,
        symbols=[
            SymbolState(
                symbol="ES",
                name="E-mini S&P 500",
                exchange="CME",
                sector="equity index",
                tick_size=0.25,
                tick_value=12.5,
                months="HMUZ",
                micro=["MES"],
                rth="09:30-16:15",
                time_zone="America/New_York",
                contract="ESH2026",
                data_source="delayed",
                live=False,
                as_of=_DAY,
                state="closed",
                invented=False,
            )
        ],
    ),
    "ProfileAnswer": ProfileAnswer(
        symbol="ES",
        tick_size=0.25,
        levels=_SESSION,
        method=_METHOD,
        rows=[ProfileRow(price=6900.25, tpos=9, letters="BCDEFGIJK", volume=8123)],
    ),
    "HistoryAnswer": HistoryAnswer(symbol="ES", from_=_DAY, to=_DAY, count=1, sessions=[_SESSION]),
    "ChartAnswer": ChartAnswer(
        symbol="ES",
        name="E-mini S&P 500",
        contract="ESH2026",
        tick_size=0.25,
        notation=Notation(kind="decimal", decimals=2, parts=1),
        time_zone="America/New_York",
        data_source="delayed",
        live=False,
        as_of=_DAY,
        updated_at=None,
        state="no_connection",
        invented=True,
        last_price=None,
        average_range=38.5,
        prior=PriorLevels(poc=6900.25, vah=6912.5, val=6889.75),
        overnight=None,
        naked_pocs=[_POC],
        poor_highs=[_HIGH],
        poor_lows=[],
        touched_pocs=[],
        repaired_highs=[],
        repaired_lows=[],
        sessions=[
            ChartSession(
                date=_DAY,
                contract="ESH2026",
                open=_SESSION.open,
                close=_SESSION.close,
                final=True,
                levels=_SESSION,
                brackets=[
                    ChartBracket(
                        letter="A", start=_SESSION.open, open=6895.0, high=6900.25, low=6884.0, close=6899.5
                    )
                ],
                low=6880.5,
                volumes=[120, 310, 95],
                path=[PathPoint(letter="A", poc=6892.0, vah=6897.25, val=6887.0)],
                ib_extensions=[
                    IbExtension(percent=150, up=6916.25, down=6873.25, up_reached=True, down_reached=False)
                ],
                overnight=NightProfile(high=6903.5, low=6878.25, brackets=[], volumes=[]),
                poor_high="open",
            )
        ],
        missing=[],
        method=_METHOD,
    ),
    "ContextAnswer": ContextAnswer(
        symbol="ES",
        data_source="delayed",
        live=False,
        as_of=_DAY,
        updated_at=None,
        state="no_connection",
        reason="No live feed of this product is connected for this key.",
        feed=None,
        contract="ESH2026",
        rolled_from=None,
        invented=True,
        disclaimer=DISCLAIMER,
        method=_METHOD,
        session=_SESSION,
        overnight=None,
        ib_extensions=[
            IbExtension(percent=150, up=6916.25, down=6873.25, up_reached=True, down_reached=False)
        ],
        bias=None,
        bias_votes=None,
        naked_pocs=[_POC],
        poor_highs=[_HIGH],
        poor_lows=[],
        damaged_sessions=[],
        completeness=Completeness(
            rule=COMPLETE_RULE,
            missing=[
                MissingSession(
                    date="2025-12-30",
                    recorded=True,
                    holes=[Hole(from_="2025-12-30T16:00:00.000Z", to="2025-12-30T21:15:00.000Z")],
                )
            ],
        ),
    ),
}

ERROR = {
    "code": "unknown_symbol",
    "message": "The error message in the language of Accept-Language.",
    "status": 404,
    "request_id": "9f1c2ab34d5e-0000002a",
}
