"""Interactive Brokers: trades of a person's own Trader Workstation or IB Gateway, through the library `ib_async`."""
