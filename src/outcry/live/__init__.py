"""Live streams: the log of trades, the computation of levels and alerts, snapshots, recovery and the registry.

A stream is the ordered trades of one contract from one owner's feed. A log position counts the entries before it. A
channel is the entry of a stream in the registry, from which requests are answered.
"""
