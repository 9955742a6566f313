"""The loop that `toolkit demo` goes round: serve, profile, fit, predict, run what is recommended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import click

from toolkit.api import inspect_paths
from toolkit.errors import CaptureError, UndeterminedError
from toolkit.live.capture import Wishes
from toolkit.live.child_server import reference_server
from toolkit.live.profiling import Job, chosen_way, profile_runs
from toolkit.live.target import open_target
from toolkit.model.fit import fit_cost_model
from toolkit.recommend.answer import predict
from toolkit.schema.demo import DemoResult, Tried
from toolkit.schema.forecast import Candidate, Forecast, Interval, Question
from toolkit.schema.profile import Estimate, Load, ProfiledRun

_LOAD = Load(batch_size=1, prompt_tokens=64, output_tokens=192)  # long: forecasts leave the prompt out
_STEPS = (0, 2, 5)  # two counts of steps and plain decoding: what the cost of all others follows from
_NOW = 2  # the step count that the recommendation is to be better than
_ROUNDS = 5  # of all settings in turn: how much a host's speed changes in between goes into the intervals
_FIT = Wishes(cycles=1000, seconds=1.5)
_CHECK = Wishes(cycles=400, seconds=15.0)  # longer: how many drafts are kept is drawn, and evens out
_MODEL = ("--max-batch", "1", "--context", "512", "--layers", "8")


def default_ranks() -> int:
    """Return 2 where two ranks leave cores for the client and the profiler, else 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 2 if cores >= 4 else 1


class Loop:
    """One demonstration; run folders go below `folder`, and stay there with `keep`."""

    def __init__(self, folder: Path, curve: tuple[float, ...], ranks: int, *, keep: bool) -> None:
        self._folder, self._curve, self._ranks, self._keep = folder, curve, ranks, keep
        self._warned: set[str] = set()

    def play(self) -> DemoResult:
        """Go round once."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as servers:
            on = "one rank" if self._ranks == 1 else f"{self._ranks} ranks"
            _tell(f"starting servers with 0 (plain decoding), 2 and 5 draft steps, each on {on}")
            pids = {steps: servers.enter_context(self._server(steps)) for steps in _STEPS}
            self._rounds(pids)
            forecast, candidate = self._predict()
            steps = candidate.num_steps
            _tell(f"running {_named(steps)}, and plain decoding again to see how even the host is")
            if steps not in pids:
                pids[steps] = servers.enter_context(self._server(steps))
            measured = self._measured(pids[steps])
            plain = self._measured(pids[0]) if steps else measured
        return self._result(forecast, candidate, measured, plain)

    def _result(
        self, forecast: Forecast, candidate: Candidate, measured: Estimate, plain: Estimate
    ) -> DemoResult:
        predicted = _estimate(candidate.tok_s)
        plain_predicted = _estimate(next(one.tok_s for one in forecast.candidates if one.num_steps == 0))
        return DemoResult(
            ranks=self._ranks,
            recommended=Tried(
                num_steps=candidate.num_steps,
                num_draft_tokens=candidate.num_draft_tokens,
                action=forecast.recommendation.action,
                why=forecast.recommendation.why,
            ),
            predicted_tok_s=predicted,
            measured_tok_s=measured,
            inside=predicted.lo <= measured.value <= predicted.hi,
            baseline_predicted_tok_s=plain_predicted,
            baseline_tok_s=plain,
            baseline_inside=plain_predicted.lo <= plain.value <= plain_predicted.hi,
            kept=str(self._folder) if self._keep else None,
        )

    def _server(self, steps: int) -> AbstractContextManager[int]:
        """Return a server of that step count, to be entered; it idles until it is asked something."""
        arguments = ["--tp", str(self._ranks), "--steps", str(steps), *_MODEL]
        if steps:
            arguments += ["--accept-by-position", ",".join(f"{share:g}" for share in self._shares(steps))]
        return reference_server(arguments, self._folder / f"engine-k{steps}.log")

    def _rounds(self, pids: Mapping[int, int]) -> None:
        """Profile every server in turn, several times: a slower minute of the host meets all of them."""
        for number in range(1, _ROUNDS + 1):
            job = Job(loads=(_LOAD,), wishes=_FIT, out=self._folder / "runs")
            runs = [self._profile(pids[steps], job) for steps in _STEPS]
            told = ", ".join("-" if run.tok_s is None else f"{run.tok_s.value:.1f}" for run in runs)
            _tell(f"profiled by process id, round {number} of {_ROUNDS}: {told} tok/s")

    def _measured(self, pid: int) -> Estimate:
        """Profile the server of that process for longer and return its throughput."""
        run = self._profile(pid, Job(loads=(_LOAD,), wishes=_CHECK, out=self._folder / "check"))
        if run.tok_s is None:
            raise CaptureError("the reference engine was too slow to be measured twice; try a quieter host")
        return run.tok_s

    def _profile(self, pid: int, job: Job) -> ProfiledRun:
        with open_target(pid) as target:
            way, why = chosen_way(target)
            if why and why not in self._warned:
                self._warned.add(why)
                click.echo(f"toolkit: warning: {why}", err=True)
            (run,) = profile_runs(target, way, job, lambda text: None)
            return run

    def _predict(self) -> tuple[Forecast, Candidate]:
        """Fit the runs so far and return the forecast and the candidate to run."""
        _tell("fitting, and asking which step count pays")
        model = fit_cost_model(inspect_paths([self._folder / "runs"]), seed=0)
        question = Question(
            accept_by_position=self._shares(max(_STEPS)),
            batch_size=_LOAD.batch_size,
            steps=tuple(range(max(_STEPS) + 1)),
            current_steps=_NOW,
            anyway=True,
        )
        forecast = predict(model, question)
        usable = [one for one in forecast.candidates if one.tok_s.value is not None]
        if not usable:
            raise UndeterminedError(
                f"the runs do not say what pays: {forecast.recommendation.why}; try a quieter host"
            )
        chosen = forecast.recommendation.candidate
        if chosen is not None:
            return forecast, forecast.candidates[chosen]
        return forecast, max(usable, key=lambda one: one.tok_s.value or 0)

    def _shares(self, steps: int) -> tuple[float, ...]:
        """Return a share for each step; beyond those given the last one's fall goes on."""
        shares = list(self._curve)
        while len(shares) < steps:
            shares.append(shares[-1] * (shares[-1] / shares[-2] if len(shares) > 1 and shares[-2] else 0.8))
        return tuple(shares[:steps])


def _estimate(found: Interval) -> Estimate:
    """Return a forecast's interval; UndeterminedError where there is none."""
    if found.value is None or found.lo is None or found.hi is None:
        raise UndeterminedError("the runs do not determine plain decoding; try a quieter host")
    return Estimate(value=found.value, lo=found.lo, hi=found.hi)


def _named(steps: int) -> str:
    return f"{steps} draft step{'' if steps == 1 else 's'}" if steps else "plain decoding"


def _tell(text: str) -> None:
    click.echo(text, err=True)
