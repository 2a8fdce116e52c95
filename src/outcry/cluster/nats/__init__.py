"""The NATS adapters: trade log, snapshots, latest states, partitions, presence and calls.

Imported only with the setting `cluster`; requires the extra of that name.
"""
