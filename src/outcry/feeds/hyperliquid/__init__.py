"""Hyperliquid, a public market of perpetual futures: trades over one WebSocket, one-minute candles over HTTP.

It needs no account. docs/decisions/0085-hyperliquid.md names the pages that the adapter was written from.
"""
