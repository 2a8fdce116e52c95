"""API keys, tiers, request limits, and what each key may see."""
