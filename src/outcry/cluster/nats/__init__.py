"""What several processes share through NATS JetStream: the log of trades, snapshots, latest states, partitions, calls.

Imported only where `cluster` is set: it needs the extra of that name.
"""
