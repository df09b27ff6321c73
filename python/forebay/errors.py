"""What can go wrong, by what the caller can do about it.

Every error has a `kind`, a stable code; the text may change. Errors pickle, so that they survive
the way from a loader worker to the trainer.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = [
    "CorruptError",
    "DeadlineError",
    "ErrorKind",
    "ForebayError",
    "InvalidInputError",
    "NoSpaceError",
    "NotFoundError",
    "StaleError",
    "UnavailableError",
    "UnsupportedError",
]


class ErrorKind(StrEnum):
    """Stable codes. A test compares them with those that the native half can raise."""

    INVALID_INPUT = "invalid-input"
    NOT_FOUND = "not-found"
    STALE = "stale"
    UNAVAILABLE = "unavailable"
    CORRUPT = "corrupt"
    NO_SPACE = "no-space"
    DEADLINE = "deadline"
    UNSUPPORTED = "unsupported"


class ForebayError(Exception):
    """Base of every error that this package raises."""

    kind: ErrorKind

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = ErrorKind(kind)

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[type[ForebayError], tuple[str, str]]:
        return type(self), (str(self), str(self.kind))


class InvalidInputError(ForebayError, ValueError):
    """The request is wrong and will stay wrong."""


class NotFoundError(ForebayError, LookupError):
    """The named file or sample does not exist."""


class StaleError(ForebayError):
    """The origin changed since it was indexed: index it again."""


class UnavailableError(ForebayError):
    """Storage or the daemon did not answer properly. Trying again may help."""


class CorruptError(ForebayError):
    """Stored bytes contradict their checksum or their format."""


class NoSpaceError(ForebayError):
    """There is no room on the device."""


class DeadlineError(ForebayError, TimeoutError):
    """The deadline passed first."""


class UnsupportedError(ForebayError, NotImplementedError):
    """A format or feature that is not supported."""


_CLASSES: dict[ErrorKind, type[ForebayError]] = {
    ErrorKind.INVALID_INPUT: InvalidInputError,
    ErrorKind.NOT_FOUND: NotFoundError,
    ErrorKind.STALE: StaleError,
    ErrorKind.UNAVAILABLE: UnavailableError,
    ErrorKind.CORRUPT: CorruptError,
    ErrorKind.NO_SPACE: NoSpaceError,
    ErrorKind.DEADLINE: DeadlineError,
    ErrorKind.UNSUPPORTED: UnsupportedError,
}


def make(kind: str, message: str) -> ForebayError:
    """The error of this kind; the native half raises what this returns."""
    return _CLASSES[ErrorKind(kind)](message, kind)
