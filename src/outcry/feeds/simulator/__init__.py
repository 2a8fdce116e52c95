"""A simulated market: every product of the universe auctioned by script and chance, for demonstration and for tests.

Nothing here was ever traded. Rule kept: a session's trades are a function of the seed, the product, the trade date, the
kind of session and its hours, and of nothing else; history, the live feed and a restart all read the very same rows.
"""
