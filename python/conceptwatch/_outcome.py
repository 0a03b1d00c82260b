"""How a run ends, as the sidecar and the user are told."""

from __future__ import annotations

import sys

from ._names import MAX_NAME, on_one_line
from ._protocol import messages

# As the sidecar takes them.
MAX_MESSAGE = 500


def outcome_of(error: BaseException | None, *, advised: bool) -> messages.RunOutcome:
    """The outcome of a rank. error: what ended it. advised: it was told to stop."""
    if error is not None:
        name, message = told(error)
        return messages.RunOutcome(failed=messages.RunOutcome.Failed(error=name, message=message))
    if advised:
        return messages.RunOutcome(stopped_on_advice=messages.RunOutcome.StoppedOnAdvice())
    return messages.RunOutcome(finished=messages.RunOutcome.Finished())


def told(error: BaseException) -> tuple[str, str]:
    """An exception's type and what it says, as texts that the sidecar takes."""
    try:
        message = on_one_line(str(error), MAX_MESSAGE)
    except Exception:  # an exception whose own text fails
        message = ""
    if isinstance(error, KeyboardInterrupt) and not message:
        message = "interrupted"
    return on_one_line(type(error).__name__, MAX_NAME) or "Exception", message


def failure(error: BaseException | None) -> BaseException | None:
    """The exception, unless it ends what it leaves as it was meant to end."""
    pruned = getattr(sys.modules.get("optuna"), "TrialPruned", GeneratorExit)
    meant = isinstance(error, (StopIteration, StopAsyncIteration, GeneratorExit, pruned))
    return None if meant or (isinstance(error, SystemExit) and error.code in (None, 0)) else error


def handled() -> BaseException | None:
    """The exception that this thread handles: in a `finally` block, the one that leaves it."""
    return sys.exc_info()[1]


def uncaught() -> BaseException | None:
    """The exception that ended the script, if one did. In an interactive session it may be any earlier one."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) and not hasattr(sys, "ps1") else None
