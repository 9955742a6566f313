"""What `toolkit demo` prints for people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from toolkit.report.tables import number, rendered, table
from toolkit.schema.demo import DemoResult
from toolkit.schema.profile import Estimate

_COLUMNS = ("<setting", "predicted", "<90 %", "measured", "<90 %", "off", "<measured is")


def demo_text(result: DemoResult) -> str:
    """Return the recommendation, the table of both settings, and what a miss means."""
    return rendered(_parts(result))


def _parts(result: DemoResult) -> Iterator[RenderableType]:
    tried = result.recommended
    steps = f"{tried.num_steps} draft step{'' if tried.num_steps == 1 else 's'}"
    setting = steps if tried.num_steps else "plain decoding"
    chosen = f"Fastest of what cannot be told apart: {setting}" if tried.action == "cannot tell" else None
    yield Text(f"{chosen or f'Recommended: {setting}'} ({tried.why}).")
    rows = [_row(setting, result.predicted_tok_s, result.measured_tok_s, result.inside)]
    if tried.num_steps:
        plain = result.baseline_predicted_tok_s, result.baseline_tok_s
        rows.append(_row("plain decoding", *plain, result.baseline_inside))
    yield table(_COLUMNS, rows, title="tok/s, predicted and then measured")
    yield Text(_meaning(result, setting))
    if result.kept:
        yield Text(f"The run folders are in {result.kept}.")


def _row(setting: str, predicted: Estimate, measured: Estimate, inside: bool) -> list[str]:
    return [
        setting,
        number(predicted.value),
        _range(predicted),
        number(measured.value),
        _range(measured),
        f"{measured.value / predicted.value - 1:+.1%}",
        "inside" if inside else "outside",
    ]


def _range(found: Estimate) -> str:
    return f"{number(found.lo)}-{number(found.hi)}"


def _meaning(result: DemoResult, setting: str) -> str:
    """Return what the comparison says: a prediction that held, one that missed, or a host that changed."""
    predicted, measured = result.predicted_tok_s, result.measured_tok_s
    if result.inside:
        held = f"The prediction held: {setting} ran inside the 90 % interval."
        return held if result.baseline_inside else f"{held} Plain decoding did not: this host is uneven."
    plain = result.baseline_predicted_tok_s, result.baseline_tok_s
    slower = measured.value < predicted.value
    if result.recommended.num_steps and not result.baseline_inside:
        if (plain[1].value < plain[0].value) == slower:
            return (
                f"Both ran {'slower' if slower else 'faster'} than the runs that were fitted: this host has "
                f"{'more' if slower else 'less'} else to do than it had then. Try again on a quiet one."
            )
        return "Both missed, in opposite directions: this host is uneven. Try again on a quiet one."
    meets = predicted.lo <= measured.hi and measured.lo <= predicted.hi
    return (
        f"The prediction missed, as one in ten does: {setting} ran outside the 90 % interval, and the "
        f"measurement's own interval {'reaches into it' if meets else 'does not reach it'}."
    )
