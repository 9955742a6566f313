"""`toolkit demo`: the whole loop on the reference engine, on the CPU."""

from __future__ import annotations

import importlib.util
import tempfile
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.number_lists import share_list
from toolkit.errors import CaptureError, UndeterminedError, UsageError

if TYPE_CHECKING:
    from toolkit.schema.forecast import Candidate, Forecast
    from toolkit.schema.profile import Estimate, ProfiledRun

_RANKS = 2
_BATCH, _PROMPT, _TOKENS = 1, 64, 192
_CYCLES, _SECONDS = 150, 8.0
_FIRST_STEPS = 3
_STARTS = (0, _FIRST_STEPS, _FIRST_STEPS, 0)  # twice each: how much starts differ goes into the intervals
_MOST_STEPS = 6
_CURVE = (0.85, 0.72, 0.61, 0.52, 0.44, 0.37)  # shares of cycles that keep draft 1, 2, ...


@click.command("demo")
@click.option(
    "--accept-by-position",
    "curve",
    callback=share_list,
    help="Acceptance to simulate: shares of cycles that keep draft 1, 2, ...",
)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Keep the run folders here.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (toolkit.demo/1).")
def demo_command(curve: tuple[float, ...] | None, out: Path | None, as_json: bool) -> None:
    """Go round the whole loop on this CPU.

    Serve, profile by process id, fit, predict, run what is recommended, compare.

    Two ranks of the reference engine on the CPU; needs torch, and less than two minutes.

    \b
    toolkit demo
    """
    if importlib.util.find_spec("torch") is None:
        raise CaptureError("the demo starts the reference engine, which needs torch; install toolkit[torch]")
    shares = curve or _CURVE
    if any(not 0 <= share <= 1 for share in shares) or list(shares) != sorted(shares, reverse=True):
        raise UsageError("--accept-by-position must fall from position to position, between 0 and 1")
    with nullcontext(out) if out else tempfile.TemporaryDirectory() as folder:
        result = _Demo(Path(folder), shares).play()
    if as_json:
        from toolkit.report.json_text import json_text

        click.echo(json_text(result))
    else:
        click.echo(_verdict(result))


@dataclass(frozen=True, slots=True)
class _Demo:
    """One demonstration; run folders go below `folder`."""

    folder: Path
    curve: tuple[float, ...]

    def play(self) -> dict[str, Any]:
        """Go round once and return the object that `--json` prints."""
        started = [(steps, self._measure(steps)) for steps in _STARTS]
        baseline = next(rate for steps, rate in reversed(started) if steps == 0)
        forecast, candidate = self._predict()
        measured = self._measure(candidate.num_steps, again=True)
        return {
            "schema": "toolkit.demo/1",
            "recommended": {
                "num_steps": candidate.num_steps,
                "num_draft_tokens": candidate.num_draft_tokens,
                "action": forecast.recommendation.action,
                "why": forecast.recommendation.why,
            },
            "predicted_tok_s": asdict(candidate.tok_s),
            "measured_tok_s": asdict(measured),
            "baseline_tok_s": asdict(baseline),
        }

    def _measure(self, steps: int, *, again: bool = False) -> Estimate:
        """Serve with a step count, profile it by process id, and return its throughput."""
        from toolkit.live.child_server import reference_server

        self.folder.mkdir(parents=True, exist_ok=True)
        _tell(
            f"serving with {steps} draft steps on {_RANKS} ranks" if steps else "serving without speculation"
        )
        shares = ",".join(f"{share:g}" for share in self._shares(steps))
        arguments = [
            "--tp",
            str(_RANKS),
            "--steps",
            str(steps),
            "--max-batch",
            "1",
            "--context",
            "512",
            "--layers",
            "12",
        ]
        arguments += ["--accept-by-position", shares] if steps else []
        with reference_server(arguments, self.folder / f"engine-k{steps}.log") as pid:
            run = self._profile(pid, self.folder / ("check" if again else "runs"))
        if run.tok_s is None:
            raise CaptureError("the reference engine was too slow to be measured twice; try a quieter host")
        _tell(f"  {run.cycles} cycles on {run.ranks} ranks, {run.tok_s.value:.1f} tok/s")
        return run.tok_s

    def _shares(self, steps: int) -> tuple[float, ...]:
        """Return a share for each step; beyond those given the last one's fall goes on."""
        shares = list(self.curve)
        while len(shares) < steps:
            shares.append(shares[-1] * (shares[-1] / shares[-2] if len(shares) > 1 and shares[-2] else 0.8))
        return tuple(shares[:steps])

    def _profile(self, pid: int, out: Path) -> ProfiledRun:
        from toolkit.live.capture import Wishes
        from toolkit.live.profiling import Job, chosen_way, profile_runs
        from toolkit.live.target import open_target
        from toolkit.schema.profile import Load

        load = Load(batch_size=_BATCH, prompt_tokens=_PROMPT, output_tokens=_TOKENS)
        job = Job(loads=(load,), wishes=Wishes(cycles=_CYCLES, seconds=_SECONDS), out=out)
        with open_target(pid) as target:
            way, why = chosen_way(target)
            if why:
                click.echo(f"toolkit: warning: {why}", err=True)
            (run,) = profile_runs(target, way, job, lambda text: None)
            return run

    def _predict(self) -> tuple[Forecast, Candidate]:
        """Fit the runs so far and return the forecast and the candidate to run."""
        from toolkit.api import inspect_paths
        from toolkit.model.fit import fit_cost_model
        from toolkit.recommend.answer import predict
        from toolkit.schema.forecast import Question

        _tell("fitting, and asking which step count pays")
        model = fit_cost_model(inspect_paths([self.folder / "runs"]), seed=0)
        question = Question(
            accept_by_position=self._shares(_MOST_STEPS),
            batch_size=_BATCH,
            steps=tuple(range(_MOST_STEPS + 1)),
            current_steps=_FIRST_STEPS,
            anyway=True,
        )
        forecast = predict(model, question)
        usable = [one for one in forecast.candidates if one.tok_s.value is not None]
        if not usable:
            raise UndeterminedError(f"the runs do not say what pays: {forecast.recommendation.why}")
        chosen = forecast.recommendation.candidate
        return forecast, (
            forecast.candidates[chosen]
            if chosen is not None
            else max(usable, key=lambda one: one.tok_s.value or 0)
        )


def _tell(text: str) -> None:
    click.echo(text, err=True)


def _verdict(result: dict[str, Any]) -> str:
    recommended, predicted = result["recommended"], result["predicted_tok_s"]
    measured, baseline = result["measured_tok_s"], result["baseline_tok_s"]
    steps = recommended["num_steps"]
    off = measured["value"] / predicted["value"] - 1
    inside = predicted["lo"] <= measured["hi"] and measured["lo"] <= predicted["hi"]
    return "\n".join(
        [
            f"recommended: {f'{steps} draft steps' if steps else 'no speculation'} ({recommended['why']})",
            f"predicted:   {_shown(predicted)}",
            f"measured:    {_shown(measured)}, {off:+.1%} from the prediction, "
            f"{'within' if inside else 'beyond'} their intervals",
            f"without speculation: {_shown(baseline)}",
        ]
    )


def _shown(found: dict[str, float]) -> str:
    return f"{found['value']:.1f} tok/s (90 %: {found['lo']:.1f} to {found['hi']:.1f})"
