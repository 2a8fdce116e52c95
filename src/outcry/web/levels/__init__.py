"""The levels page."""
