"""Live streams: the log of trades, the computation of levels and alerts, snapshots, recovery and the registry."""
