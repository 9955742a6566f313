"""Windows in which a GPU was slowed are marked; a GPU that always is slowed is what was measured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from toolkit.live.capture import Captured, Wishes, _Work

SECOND = 1_000_000_000


def marked(slowed: list[bool]) -> Captured:
    found = Captured(None)
    target: Any = SimpleNamespace(server=SimpleNamespace(log=None))
    work = _Work(target, None, Wishes(), lambda text: None, found)
    found.gpu_samples = [
        {"t_ns": at * SECOND, "gpu": 0, "slowed_by": ["hw_thermal"] if hot else []}
        for at, hot in enumerate(slowed)
    ]
    work._mark_slowed()
    return found


def test_a_short_slowdown_is_a_window_that_fits_leave_out() -> None:
    found = marked([False, True, False, False])
    assert len(found.excluded) == 1
    assert found.warnings == []


def test_a_lasting_slowdown_is_a_warning_and_keeps_the_cycles() -> None:
    found = marked([True, True, True, False])
    assert found.excluded == []
    assert "slowed by hw_thermal most of the time" in found.warnings[0]


def test_no_samples_say_nothing() -> None:
    assert (marked([]).excluded, marked([]).warnings) == ([], [])
