"""The wrapper around an engine's function: what the hook raises never reaches the engine, and the engine's
own exceptions pass through."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

from .complaints import complain
from .recorder import Recorder

FAULTS = 3  # of one hook, before it is left out

_MARKS = {  # what is called on the recorder's marks, by role
    "draft_forward": ("begin", "end"),
    "collective": ("begin_collective", "end_collective"),
}

Arguments = tuple[Any, ...]
Note = Callable[[Arguments], None]


class Hook(Protocol):
    """What is done around one call. `begin` returns a token; None leaves the call alone."""

    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> Any: ...

    def end(self, token: Any, args: Arguments, result: Any) -> None: ...


class Faults:
    """Counts what hooks raised, by role; a hook with too many is switched off."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.why: dict[str, str] = {}
        self._count: dict[str, int] = {}

    def note(self, role: str, error: Exception) -> None:
        """Count one, give the open cycle up, say it once."""
        self._count[role] = self._count.get(role, 0) + 1
        if self._count[role] >= FAULTS:
            self.why[role] = f"failed: {type(error).__name__}: {error}"
        complain(f"hook {role}", error)
        try:
            self.recorder.abandon()
        except Exception:
            self.recorder.cycle = None

    def off(self, role: str) -> bool:
        """Say whether a hook is switched off."""
        return role in self.why


class Gate(Protocol):
    """The one flag that a hook reads while nothing is recorded."""

    awake: bool


def awake_only(
    original: Callable[..., Any], role: str, hook: Hook, gate: Gate, faults: Faults
) -> Callable[..., Any]:
    """Return `original` with the hook around it while the gate is awake; asleep it costs one flag test."""
    recorder = faults.recorder

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not gate.awake or role in faults.why:
            return original(*args, **kwargs)
        try:
            token = hook.begin(args, kwargs)
        except Exception as error:
            faults.note(role, error)
            token = None
        if token is None:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException:
            recorder.abandon()  # the engine's own; what it did is no cycle
            raise
        try:
            hook.end(token, args, result)
        except Exception as error:
            faults.note(role, error)
        return result

    return call


def after_only(
    original: Callable[..., Any], role: str, note: Callable[[Arguments], None], gate: Gate, faults: Faults
) -> Callable[..., Any]:
    """Return `original` with `note` called behind it while the gate is awake: for what runs often."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if gate.awake and role not in faults.why:
            try:
                note(args)
            except Exception as error:
                faults.note(role, error)
        return result

    return call


def marking_only(
    original: Callable[..., Any],
    role: str,
    applies: Callable[[Arguments], bool],
    recorder: Recorder,
    faults: Faults,
) -> Callable[..., Any]:
    """Return `original` that marks its begin and end, while marks are asked for: at capture, or eagerly."""
    begin, end = _MARKS[role]

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        marks = recorder.marks
        if marks is None:
            return original(*args, **kwargs)
        marked = _asked(applies, args, faults, role) and _mark(marks, begin, faults, role)
        result = original(*args, **kwargs)
        if marked:
            _mark(marks, end, faults, role)
        return result

    return call


def _asked(applies: Callable[[Arguments], bool], args: Arguments, faults: Faults, role: str) -> bool:
    try:
        return not faults.off(role) and applies(args)
    except Exception as error:
        faults.note(role, error)
        return False


def _mark(marks: Any, where: str, faults: Faults, role: str) -> bool:
    try:
        getattr(marks, where)()
        return True
    except Exception as error:
        faults.note(role, error)
        return False
