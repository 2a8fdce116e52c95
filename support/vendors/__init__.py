"""Fake vendors that speak each broker's protocol on loopback ports."""
