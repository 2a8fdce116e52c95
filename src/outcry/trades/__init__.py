"""Trades on their way into a session's levels: feed events, row formats, validation, removal of duplicates."""
