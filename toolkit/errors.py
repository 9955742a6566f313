"""Errors a user can meet; each class owns its exit code and none knows the command line."""


class ToolkitError(Exception):
    """Base of every error that is reported as one sentence instead of a traceback."""

    exit_code = 1


class UsageError(ToolkitError):
    """The request cannot be understood as typed (exit code 2)."""

    exit_code = 2


class BadInputError(ToolkitError):
    """A file or value given is damaged, contradictory or of the wrong kind (exit code 3)."""

    exit_code = 3


class CaptureError(ToolkitError):
    """A server cannot be attached to, or nothing could be captured from it (exit code 4)."""

    exit_code = 4


class UndeterminedError(ToolkitError):
    """The data does not determine what was asked (exit code 5)."""

    exit_code = 5
