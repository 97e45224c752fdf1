"""The benchmark suite: every table and figure of benchmarks/RESULTS.md, one module for each part.

`python -m benchmarks.suite --help` says how to run it; docs/benchmarks.md what can be compared with what.
"""
