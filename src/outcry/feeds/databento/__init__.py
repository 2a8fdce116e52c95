"""Databento: CME Globex, every trade with its side, by one key; the last day is replayed on the live connection."""
