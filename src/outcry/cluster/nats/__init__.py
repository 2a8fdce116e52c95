"""The parts of a cluster that use NATS: trade log, snapshots, latest states, partitions, presence and calls.

Imported only if the setting `cluster` is set; needs the extra `cluster` (`pip install openoutcry[cluster]`).
"""
