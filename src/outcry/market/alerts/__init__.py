"""The state machines of market-structure alerts."""
