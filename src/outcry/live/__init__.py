"""Live streams: the log of trades, the computation of levels and alerts, snapshots, recovery and the registry.

A stream is the ordered trades of one contract from one owner's feed. A position in its log is the number of entries
before it. A channel is a stream's entry in the registry; requests are answered from it.
"""
