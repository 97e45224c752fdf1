"""Where the work of a run is done: threads of this process, other processes, or a cluster of the user's own.

Every stage hands the same thing to its workers: a pure function of one unit of work that returns counts. `Workers.map`
returns the results in the order of the units, so that counts never depend on who computed them.
"""

from fairchain.executors.workers import AnyWorkers, Workers, default_workers, open_workers

__all__ = ["AnyWorkers", "Workers", "default_workers", "open_workers"]
