"""Hyperliquid's terms of use, as far as they concern who may read its market data."""

#: Date of the last update of the terms that `SUMMARY` describes. Each connection stores it as the user's consent.
VERSION = "2026-06-15"
URL = "https://app.hyperliquid.xyz/terms"
SUMMARY = f"""\
Hyperliquid's terms of use (last update: {VERSION}): {URL}
Read them there. They may have changed since this version of Outcry was made. In short:
- Hyperliquid excludes "restricted persons" from its web interface: persons and companies in the United States, in
  Ontario (Canada) and in territories under sanctions, and citizens of these territories (section 1.6).
- You must obey the laws of your country, and must not hide your location to get access (sections 1.8 and 1.9).
- Hyperliquid publishes no licence to pass on its market data. The data is for you alone: Outcry shows it, and levels
  computed from it, to no other user of this service.
Outcry reads public trades and candles from api.hyperliquid.xyz. It has no account there, sends no orders, and uses at
most half of the vendor's request limit for an IP address.
"""
