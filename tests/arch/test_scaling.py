"""The page on scaling shows the results of its own arithmetic."""

from pathlib import Path

from bench.capacity import Load, Measured, rows, table

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "scaling.md"


def test_the_table_is_what_the_arithmetic_gives() -> None:
    assert "\n".join(table(Load(), Measured())) in PAGE.read_text(), (
        "put what python -m bench.capacity prints there"
    )


def test_a_line_worked_by_hand() -> None:
    """20,000 feeds × 10 trades/s × 150 µs are 30 processors; × 42.2 bytes 8.44 MB/s. 100,000 × 2.6 MiB are 272.6 GB."""
    feeds = next(iter(rows(Load(), Measured())))
    assert (round(feeds.cpus, 3), round(feeds.wire), round(feeds.held / 1e9, 1)) == (30.0, 8_440_000, 272.6)
