"""Massive, formerly Polygon: trades of CME, CBOT, NYMEX and COMEX over one WebSocket, and their history over HTTP."""
