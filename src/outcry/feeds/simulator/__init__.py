"""Simulated market for the demo and for tests. None of its trades ever happened.

The trades of a session depend only on the seed, the product, the trade date, the kind of session and its hours.
Therefore history, the live feed and a restarted feed return identical rows.
"""
