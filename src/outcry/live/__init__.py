"""Live streams: the log, the fold, snapshots, recovery and the registry of live sessions."""
