"""Interactive Brokers: trades from the user's own Trader Workstation or IB Gateway, through library `ib_async`."""
