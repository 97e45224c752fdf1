"""Damaged and hostile files for every parser: each ends in success or in one of our own errors, within limits.

`mutate` damages a file by the structure of its format, `targets` has one entry for each parser, `corpus` has the
hostile files found so far, `graphs` makes random networks for the proof that rows are independent, `worker` tries
mutants in a process with limits, `run` starts workers and counts.

`python -m tests.fuzzing --help` runs it by hand; `make fuzz` runs 100,000 mutants over all formats.
"""
