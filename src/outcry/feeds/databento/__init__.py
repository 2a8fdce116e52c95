"""Databento: CME Globex trades with side, by API key. The live gateway replays the last day."""
