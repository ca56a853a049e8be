"""What a user did wrong, with a hint and an exit code.

Anything that is not a NanodynoError is our bug and shows a traceback.
"""


class NanodynoError(Exception):
    """A user's mistake or a failure that a user can act on; caught once, in cli/main.py."""

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class RunFailed(NanodynoError):
    """It ran and failed: the settings were legal, the outcome was not."""

    exit_code = 1
