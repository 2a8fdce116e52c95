"""Every known bug of similar programs has a test here that prevents it.

Expected values are worked by hand in the named tests. This module ensures that none of them is lost.
"""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

PEERS, LADDER, PROFILE = "market/test_peer_bugs.py", "market/test_ladder.py", "market/test_profile.py"

#: Each bug, and the tests that detect it, as file (in `tests/`) and function.
CAUGHT = {
    "price grid by ceiling or truncation": [
        (PEERS, "test_a_price_between_two_ticks_is_refused_and_never_rounded"),
        (PEERS, "test_a_price_on_the_grid_stays_on_its_row"),
    ],
    "initial balance with its end included": [
        (PEERS, "test_a_trade_at_the_end_of_the_first_hour_is_not_in_the_initial_balance"),
        (LADDER, "test_the_end_of_a_bracket_belongs_to_the_next"),
    ],
    "initial balance with a third bracket": [
        (PEERS, "test_the_third_bracket_does_not_widen_the_initial_balance"),
        (PROFILE, "test_the_initial_balance_is_two_brackets_not_three"),
    ],
    "half-open high drops the top tick": [
        (PEERS, "test_a_bar_prints_its_high"),
        (LADDER, "test_a_bracket_prints_every_row_of_its_range_including_its_high"),
    ],
    "fixed cap on levels": [
        (PEERS, "test_more_rows_than_a_table_of_fixed_size_holds"),
        (LADDER, "test_no_row_is_dropped_however_wide_the_range"),
    ],
    "cap of 26 brackets": [(PEERS, "test_a_session_of_23_hours_keeps_all_its_46_brackets")],
    "letters past Z": [
        (LADDER, "test_a_session_of_23_hours_has_46_different_letters"),
        (LADDER, "test_letters_after_all_single_characters_are_still_different"),
    ],
    "notional instead of contracts": [
        (PEERS, "test_the_volume_poc_counts_contracts_not_notional"),
        (LADDER, "test_volume_is_contracts_not_money"),
    ],
    "value area with holes": [(PEERS, "test_the_value_area_has_no_holes")],
    "POC and value area anchored on different tied rows": [
        (PEERS, "test_the_value_area_grows_from_the_reported_poc"),
        (PROFILE, "test_the_value_area_is_anchored_on_the_poc_of_the_same_method"),
    ],
    "rows of zero volume": [
        (PEERS, "test_rows_without_trades_are_rows"),
        (PEERS, "test_an_edge_of_value_never_lies_on_a_row_without_volume"),
        (PEERS, "test_prints_without_size_yield_no_levels"),
        (PROFILE, "test_rows_without_volume"),
    ],
    "prints out of order": [
        (PEERS, "test_the_order_of_prints_changes_no_level"),
        (LADDER, "test_a_late_trade_belongs_to_its_own_bracket_and_changes_no_close"),
    ],
    "duplicate prints": [
        (PEERS, "test_a_print_repeated_by_a_second_file_counts_once"),
        (PEERS, "test_two_equal_prints_of_one_file_count_twice"),
    ],
    "bars stamped at their end taken for bars stamped at their start": [
        (PEERS, "test_bars_stamped_at_their_end_are_shifted_to_their_start"),
        (PEERS, "test_a_table_with_ambiguous_timestamps_requires_an_option"),
    ],
    "cumulative volume": [(PEERS, "test_a_running_total_is_refused_as_volume")],
    "market-by-order trades and fills counted twice": [
        (PEERS, "test_the_fill_of_a_trade_is_not_a_second_trade")
    ],
}


@pytest.mark.parametrize(
    ("bug", "file", "name"), [(bug, file, name) for bug, tests in CAUGHT.items() for file, name in tests]
)
def test_the_test_exists_and_asserts_something(bug: str, file: str, name: str) -> None:
    tree = ast.parse((TESTS / file).read_text())
    found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert name in found, bug
    checks = [
        node
        for node in ast.walk(found[name])
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Attribute) and node.attr == "raises")
    ]
    assert checks, bug


def test_every_test_about_peers_is_in_the_table() -> None:
    tree = ast.parse((TESTS / PEERS).read_text())
    written = {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    assert written <= {name for tests in CAUGHT.values() for file, name in tests if file == PEERS}
