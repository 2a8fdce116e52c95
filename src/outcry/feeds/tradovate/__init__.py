"""Tradovate (NinjaTrader's cloud) as a live feed: its web socket of tick charts, by a client of our own."""
