"""The parts of `python -m benchmarks`: each is a module with a function `run(sizes, models)`."""
