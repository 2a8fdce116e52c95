"""Ratios against peers and physical limits, measured in one run on one machine: `python -m bench`.

One module a bench, each with `run(size) -> Iterator[Figure]`; what is measured and why: docs/benchmarks.md.
"""
