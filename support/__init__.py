"""Parts shared by tests, benchmarks and simulation: real engines on free ports, fake vendors, certificates.

No module here imports `tests`, `bench` or `sim`.
"""
