"""The few kinds of error that a user can cause; each message says what to do."""

from __future__ import annotations


class HarnessError(Exception):
    """Something the user can mend; `str()` is one line that names the value and the remedy."""


class UsageError(HarnessError):
    """An option, a path or a name that the user gave cannot be used."""


class RunFolderError(HarnessError):
    """A run folder is absent, is no run folder, or was written by another schema."""


class BaselineError(HarnessError):
    """A baseline cannot be read, or a run may not become one."""


class KnownIssuesError(HarnessError):
    """The list of known issues is malformed."""


class TargetUnavailable(HarnessError):
    """The code base under test is not here and cannot be brought here."""


class RunnerUnavailable(HarnessError):
    """This machine is not of the kind that was asked for."""
