"""Live feed of Tradovate (NinjaTrader's cloud): tick charts over a WebSocket, with our own client."""
