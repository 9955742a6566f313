"""What the reference engine's log says of its throughput."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")

from toolkit.reference import log_lines
from toolkit.reference.cycle import CycleResult
from toolkit.reference.log_lines import CycleLog
from toolkit.reference.options import read_options


class Clock:
    """A clock that is put forward by hand."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def strftime(self, _form: str) -> str:
        return "then"


def test_an_idle_time_between_two_requests_takes_nothing_from_the_seconds_that_were_decoded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setattr(log_lines, "time", clock)
    log = CycleLog(read_options(["--steps", "1", "--decode-log-interval", "10"]))
    result = CycleResult(
        batch_size=1,
        padded_batch_size=1,
        contexts=(50,),
        num_steps=1,
        correct_drafts=(1,),
        tokens=((1, 2),),
        graph={},
    )
    for number in range(20):
        if number in (0, 8, 15):
            clock.now += 60
            log.wake()
        clock.now += 0.01
        log.cycle(result, 0)
    said = re.findall(r"gen throughput \(token/s\): ([0-9.]+)", capsys.readouterr().err)
    assert [float(one) for one in said] == pytest.approx([200, 200], rel=0.01)
