"""Executors of a run: threads of this process, other processes, or the user's cluster.

Every stage gives its workers a pure function of one unit of work that returns counts. `Workers.map` returns the results
in the order of the units, so that counts never depend on the worker that computed them.
"""

from fairchain.executors.workers import AnyWorkers, Workers, default_workers, open_workers

__all__ = ["AnyWorkers", "Workers", "default_workers", "open_workers"]
