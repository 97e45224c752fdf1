"""All exceptions that fairchain raises on purpose.

    FairchainError
    ├── OutputError             a result that cannot be written: exit code 2, and the result is shown
    └── InputError              an input of the caller that cannot be used: exit code 2
        ├── SpecError           the spec file or object, or an option that replaces a key
        │   └── NoProtectedFeatureError     no protected column is stated or suggested by its name
        ├── ModelError          the model's file, its shape or its outputs
        │   ├── UnansweredError     an input for which the model gives no class
        │   └── DecisionThresholdNeededError    scores without a known decision threshold
        ├── DataError           a table or a data set
        ├── CertificateError    a certificate that cannot be read or written
        ├── CheckpointError     a file from which a run cannot be continued
        ├── ChainError          a chain that is not a Markov chain
        ├── QueryError          a query that cannot be parsed or answered
        ├── AuditError          a folder that an audit cannot use
        └── ExecutorError       an executor or cluster that cannot be used, or that lost its workers

Each message is one sentence or two that name the file, the key and what to write instead. Catch `FairchainError` to
catch all of them, or a class of the tree to continue, for example with a decision threshold:
`except DecisionThresholdNeededError`. A `TypeError` means an argument that a function does not have; `UnfairError` of
`assert_fair` is an AssertionError. Any other exception is a bug in fairchain.
"""

from __future__ import annotations


class FairchainError(Exception):
    """The base class of all exceptions that fairchain raises on purpose."""


class OutputError(FairchainError):
    """A result cannot be written: the disk is full, the folder is read-only, standard output is closed."""


class InputError(FairchainError):
    """An input of the caller cannot be used. The message states the reason and the remedy."""


class SpecError(InputError):
    """The spec contradicts itself, or names something that does not exist."""


class NoProtectedFeatureError(SpecError):
    """No column name suggests a protected feature; `candidates` are the features."""

    def __init__(self, message: str, candidates: tuple[str, ...]) -> None:
        super().__init__(message)
        self.candidates = candidates


class ModelError(InputError):
    """The model cannot be loaded, is not trusted, or returns an output that is not a decision."""


class UnansweredError(ModelError):
    """The network gives an output for an input that is not a class; `shown` is the input with the names of the spec."""

    MESSAGE = "{name}: {problem}; the input was {shown}"

    def __init__(self, message: str, shown: str = "") -> None:
        super().__init__(message)
        self.shown = shown


class DecisionThresholdNeededError(ModelError):
    """The model gives scores that are not probabilities, and nothing determines their decision threshold."""


class DataError(InputError):
    """A table or data set cannot be read or downloaded, or does not have the expected contents."""


class CertificateError(InputError):
    """A certificate cannot be read or written. If a certificate can be read but is wrong, `recheck` rejects it
    instead.
    """


class CheckpointError(InputError):
    """A checkpoint or journal belongs to another question, model or user, or another process is using it."""


class ChainError(InputError):
    """A file or an object is not a Markov chain, or a chain cannot be learned."""


class QueryError(InputError):
    """A formula cannot be read, or names a label that the chain does not have."""


class AuditError(InputError):
    """The folder of an audit cannot be used, or contains files that do not belong to this audit."""


class ExecutorError(InputError):
    """The processes or the cluster are not reachable, were lost too often, or returned different results."""


class StoppedError(Exception):
    """The run was stopped before a model gave all answers; the answers so far are kept. It is not raised to callers."""
