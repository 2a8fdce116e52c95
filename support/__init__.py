"""What the tests, the benchmarks and the simulation share: real engines on free ports, fake vendors, certificates.

Nothing here imports `tests`, `bench` or `sim`.
"""
