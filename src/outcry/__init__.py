"""Outcry: where the auction stands, computed from trades by stated rules.

Educational context, never advice; market data keeps its owner's licence.
"""

__version__ = "0.1.0"
