"""Use cases: import, query, accounts. They know no driver and no HTTP."""
