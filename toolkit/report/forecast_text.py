"""A forecast as one table of 80 columns and a few sentences."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from toolkit.forecast.candidates import ACCEPTANCE_BEYOND
from toolkit.forecast.wording import signed_percent, steps_text
from toolkit.report.tables import number, rendered, share, single_spaced, table
from toolkit.schema.forecast import AcceptanceUsed, Baseline, Candidate, Forecast, Interval

_LEGEND = {
    "~": "~ not determined by the fitted runs: the range is what they leave open.",
    "^": "^ cycle beyond what was measured: its interval is wider.",
    "+": "+ accept length beyond the positions measured: its interval is wider.",
}


def forecast_text(forecast: Forecast) -> str:
    """Return situation, candidates, recommendation and what it rests on."""
    parts: list[RenderableType] = [
        Text(situation_text(forecast), style="bold"),
        Text(acceptance_text(forecast.acceptance)),
        _candidates(forecast),
    ]
    marks = "".join(_mark(candidate) for candidate in forecast.candidates)
    parts += [Text(text) for mark, text in _LEGEND.items() if mark in marks]
    parts.append(Text(""))
    decided = forecast.recommendation
    parts.append(Text(f"{headline(forecast)}: {decided.why}.", style="bold"))
    parts.append(Text(f"Draft TP: {forecast.draft_tp.why}."))
    flags = _flags(forecast)
    if flags:
        parts.append(Text(f"Set: {flags}{_beside(forecast)}"))
    return single_spaced(rendered(parts))


def _beside(forecast: Forecast) -> str:
    """Return what a flag must be joined with: vLLM's whole speculative config is one value."""
    index = forecast.recommendation.candidate
    speculates = index is not None and forecast.candidates[index].num_steps > 0
    if forecast.inputs.get("engine") != "vllm" or not speculates:
        return ""
    return " (in the server's own --speculative-config, beside its method and model)"


def situation_text(forecast: Forecast) -> str:
    """Return the server, batch and context that a forecast is of."""
    asked = forecast.inputs
    named = [str(asked[key]) for key in ("engine", "model_name", "gpu") if asked.get(key)]
    if asked.get("tp_size"):
        named.append(f"TP{asked['tp_size']}")
    if asked.get("other_drafts"):
        named.append(f"draft {asked['draft_model'] or 'model not known'}")
    if asked.get("scenarios"):
        return ", ".join([*named, f"{asked['scenarios']} scenarios"])
    context = f", context {asked['context_tokens']}" if asked.get("context_tokens") else ""
    return f"{', '.join(named)}: batch {asked['batch_size']}{context}"


def acceptance_text(used: AcceptanceUsed) -> str:
    """Return the acceptance of a forecast, how it was read, and what other readings would be."""
    if used.accept_length is None:
        return "Acceptance: not known, so cycle times alone."
    text = f"Acceptance: {used.accept_length:.2f} tokens a cycle"
    if used.num_steps:
        text += f" at {steps_text(used.num_steps)} and {used.num_draft_tokens} draft tokens"
    known = {"log": "as a log prints it", "draft": "correct/proposed", "conditional": "per position"}
    if used.kind in known and used.given is not None:
        others = ", ".join(
            f"{name} {used.readings[kind]:.2f}"
            for kind, name in known.items()
            if _differs(used.readings.get(kind), used.accept_length)
        )
        text += f", rate {used.given:g} read {known[used.kind or '']}"
        if used.kind == "log" and used.convention:
            text += f" ({used.convention})"
        text += f"; read otherwise: {others}" if others else ""
    shape = {
        "prior": "other steps by the prior of public heads",
        "given": "steps beyond it by the prior of public heads",
        "measured": "as measured" if used.given is None else "other steps by the measured curve, moved to it",
    }
    return f"{text}; {shape.get(used.source or '', '')}."


def _differs(read: float | None, taken: float) -> bool:
    """Return whether a reading is another than the one taken, as printed."""
    return read is not None and f"{read:.2f}" != f"{taken:.2f}"


def _candidates(forecast: Forecast) -> Table:
    needed = {(entry.num_steps, entry.draft_tp): entry for entry in forecast.break_even_accept_length}
    measured = forecast.inputs.get("tp_size")
    other_tp = len({candidate.draft_tp for candidate in forecast.candidates}) > 1
    scenario = any(candidate.row is not None for candidate in forecast.candidates)
    rows = []
    for index, candidate in enumerate(forecast.candidates):
        chosen = "*" if index == forecast.recommendation.candidate else ""
        even = None if scenario else needed.get((candidate.num_steps, candidate.draft_tp))
        first = [f"{chosen}{candidate.num_steps}", str(candidate.num_draft_tokens)]
        if other_tp:
            first.append(str(candidate.draft_tp or measured or "-"))
        if scenario:
            first += [str(candidate.topk), str(candidate.batch_size)]
        rows.append(
            [
                *first,
                number(candidate.accept_length, 2),
                *_interval(candidate.cycle_ms, candidate, 2),
                *_interval(candidate.tok_s, candidate, 1),
                _chance(candidate),
                *([] if scenario else [number(even.accept_length if even else None, 2)]),
                _mark(candidate),
            ]
        )
    if not scenario and all(candidate.num_steps for candidate in forecast.candidates):
        rows.append(_plain_row(forecast, other_tp))
    names = ["steps", "D", *(["TP"] if other_tp else []), *(["topk", "batch"] if scenario else [])]
    names += [
        "length",
        "cycle ms",
        "<90 %",
        "tok/s",
        "<90 %",
        "best",
        *([] if scenario else ["even at"]),
        "<",
    ]
    return table(names, rows)


def _plain_row(forecast: Forecast, other_tp: bool) -> list[str]:
    """Return plain decoding, which the others are compared with, where it was not asked for."""
    plain = forecast.baseline
    return [
        *["0", "1", *(["-"] if other_tp else [])],
        number(1.0, 2),
        *_interval(plain.cycle_ms, plain, 2),
        *_interval(plain.tok_s, plain, 1),
        "-",
        "-",
        "" if plain.determined else "~",
    ]


def _interval(interval: Interval, candidate: Candidate | Baseline, digits: int) -> list[str]:
    value = number(interval.value, digits) if candidate.determined else "~"
    if interval.lo is None and interval.hi is None:
        return [value, "-"]
    return [value, f"{number(interval.lo, digits)}-{number(interval.hi, digits)}"]


def _chance(candidate: Candidate) -> str:
    """Return how often it was the fastest; over a range that the data leaves open that is no chance."""
    return "-" if candidate.p_best is None or not candidate.determined else f"{candidate.p_best:.0%}"


def _mark(candidate: Candidate) -> str:
    """Return `~`, or which of the two leaves what was measured: the cycle, the accept length, or both."""
    if not candidate.determined:
        return "~"
    beyond = [text.startswith(ACCEPTANCE_BEYOND) for text in candidate.extrapolated]
    return ("" if all(beyond) else "^") + ("+" if any(beyond) else "")


def headline(forecast: Forecast) -> str:
    """Return what to do in a few words, with its gain."""
    decided = forecast.recommendation
    if decided.candidate is None:
        return decided.action.capitalize()
    steps = forecast.candidates[decided.candidate].num_steps
    named = steps_text(steps)
    text = {"use": f"Use {named}", "tie": f"Tie, so {named}", "no change": f"No change ({named})"}.get(
        decided.action, decided.action.capitalize()
    )
    gain = decided.gain
    if gain.value and decided.relative_to and decided.action in ("use", "turn speculation off"):
        said = share(gain.value)
        if _compares_ranges(forecast):
            said = f"between {signed_percent(gain.lo)} and {signed_percent(gain.hi)}"
        text += f" ({said} over {decided.relative_to})"
    return text


def _compares_ranges(forecast: Forecast) -> bool:
    """Return whether one of the two settings that the gain compares is not determined."""
    decided = forecast.recommendation
    named: dict[str, bool] = {}
    for one in forecast.candidates:  # those at another draft TP come last and are never compared
        named.setdefault(steps_text(one.num_steps), one.determined)
    named.setdefault(steps_text(0), forecast.baseline.determined)
    chosen = decided.candidate is None or forecast.candidates[decided.candidate].determined
    return not (chosen and named.get(decided.relative_to or "", True))


def _flags(forecast: Forecast) -> str:
    decided = forecast.recommendation
    if decided.candidate is None:
        return ""
    return forecast.candidates[decided.candidate].reachable.flags
