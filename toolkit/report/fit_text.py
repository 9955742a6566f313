"""A fit and its check as tables of 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from toolkit.model.cell import steps_text
from toolkit.model.term_table import NOT_TOLD
from toolkit.report.tables import (
    number,
    rendered,
    share,
    signed_share,
    single_spaced,
    table,
    whole,
    with_short_names,
)
from toolkit.schema.cost import CheckedCell, CheckReport, FitReport, FittedCell, GroupReport, NextRun, Term

_TREE = ["topk", "D"]
_OPEN, _NEAR_ZERO = "open", "near 0, used"
_LEGEND = {
    _OPEN: "open: the runs do not determine it alone.",
    _NEAR_ZERO: "near 0, used: its error is as large as itself; forecasts use the value fitted.",
}


def fit_text(report: FitReport) -> str:
    """Return every group of a fit."""
    parts: list[RenderableType] = []
    for group in report.groups:
        parts += _group_parts(group)
    parts.append(Text(f"{_count(report.runs, 'run')} fitted; wrote {report.model}"))
    return single_spaced(rendered(parts))


def _count(number_of: int, noun: str) -> str:
    return f"{number_of} {noun}{'' if number_of == 1 else 's'}"


def group_title(group: GroupReport) -> str:
    """Return a group in words, its draft model where others differ in it alone."""
    named = [part for part in (group.engine, group.model, group.gpu) if part]
    named.append(f"TP{group.tp_size}" if group.tp_size else "TP size not known")
    if group.other_drafts:
        named.append(f"draft {group.draft_model}" if group.draft_model else "draft model not known")
    return ", ".join(named)


def _group_parts(group: GroupReport) -> list[RenderableType]:
    title = group_title(group)
    parts: list[RenderableType] = [
        Text(f"{title}: {_count(group.configurations, 'configuration')}", style="bold"),
        _cells(group),
        *_cells_legend(group),
        _terms(group.terms),
        *_legend(group.terms),
        Text(_quality(group)),
    ]
    if group.calibration is not None:
        sizes = ", ".join(f"TP{size}" for size in group.calibrated_draft_tps)
        parts.append(Text(f"Draft at {sizes} by the calibration {group.calibration}."))
    pairs = group.identifiability.confounded
    if pairs:
        told = "; ".join(f"{first} and {second}" for first, second in pairs)
        parts.append(Text(f"Cannot be told apart: {told}."))
    parts += [Text(f"Next run: {_next_run(run)}.") for run in group.next_runs]
    if not group.next_runs:
        parts.append(Text("No further run would help much."))
    parts.append(Text(""))
    return parts


def _cells(group: GroupReport) -> Table:
    rows, trees = [], any(cell.topk > 1 for cell in group.cells)
    for cell in group.cells:
        off = None if cell.cycle_us is None or cell.fitted_us is None else cell.fitted_us / cell.cycle_us - 1
        rows.append(
            [
                cell.run,
                str(cell.num_steps),
                *_tree(cell, trees),
                str(cell.batch_size),
                whole(cell.context_tokens),
                number(_ms(cell.cycle_us), 2),
                (cell.cycle_source or "-") + (" host" if cell.host_bound else ""),
                number(_ms(cell.fitted_us), 2),
                "-" if off is None else signed_share(off),
            ]
        )
    names = ["<run", "steps", *_TREE[: trees * 2], "batch", "context", "mean ms", "<from", "fit ms", "off"]
    return table(names, with_short_names(names, rows))


def _tree(cell: FittedCell | CheckedCell, trees: bool) -> list[str]:
    """Return drafts a step and tokens verified for a request, where a table has to tell trees apart."""
    return [str(cell.topk), str(cell.num_draft_tokens)] if trees else []


def _cells_legend(group: GroupReport) -> list[Text]:
    """Return what the columns hold that their names do not say."""
    said = ["mean ms: the mean cycle, where `toolkit inspect` prints the median"]
    if any(cell.host_bound for cell in group.cells):
        said.append("host: the host set this cycle, so it is fitted as its floor")
    return [Text("; ".join(said) + ".")]


def _ms(us: float | None) -> float | None:
    return None if us is None else us / 1000


def _terms(terms: Iterable[Term]) -> Table:
    rows = [
        [term.name, _value(term), number(term.se, 1), term.source.removesuffix(NOT_TOLD)] for term in terms
    ]
    return table(["<term", "us", "± us", "<from"], rows, wraps="<from")


def _value(term: Term) -> str:
    if term.value is not None:
        return number(term.value, 1)
    return _OPEN if term.left_open else _NEAR_ZERO


def _legend(terms: Iterable[Term]) -> list[Text]:
    """Return what the words in place of values mean, where one is used."""
    words = {_value(term) for term in terms}
    return [Text(text) for word, text in _LEGEND.items() if word in words]


def _quality(group: GroupReport) -> str:
    held = group.holdout
    if held.cells:
        text = (
            f"Left out one at a time, {held.cells} configurations are predicted to {share(held.mape)} "
            f"on average (p90 {share(held.p90)}; {share(held.covered90)} inside their 90 % interval)"
        )
        if held.null_mape is not None:
            text += (
                f"; a straight line in the step count: {share(held.null_mape)}, "
                f"this fit on the same {held.null_cells} of them {share(held.mape_on_null_cells)}"
            )
        text += "."
    else:
        text = f"No hold-out: {held.note}."
    if held.cells and held.note:
        text += f" {held.note[0].upper()}{held.note[1:]}."
    return text


def _next_run(run: NextRun) -> str:
    steps = steps_text(run.num_steps)
    context = f", context {run.context_tokens}" if run.context_tokens else ""
    return f"{steps} at batch {run.batch_size}{context}: {run.why}"


def check_text(report: CheckReport) -> str:
    """Return predicted against measured cycles, then draft phases, those of each group together."""
    by_group: dict[str, list[CheckedCell]] = {}
    for cell in report.configurations:
        by_group.setdefault(cell.group, []).append(cell)
    parts: list[RenderableType] = []
    for group, cells in by_group.items():
        parts += [Text(f"{group}: {_count(len(cells), 'configuration')}", style="bold"), _checked(cells)]
        parts += (
            [Text("draft and extend, waits left out"), *drafts] if (drafts := _checked_drafts(cells)) else []
        )
    if report.mape is not None:
        parts.append(
            Text(f"Mean error {share(report.mape)}; {share(report.covered90)} inside their 90 % interval.")
        )
    if report.draft_mape is not None:
        parts.append(Text(f"Draft and extend: mean error {share(report.draft_mape)}."))
    return single_spaced(rendered(parts))


def _checked(cells: Sequence[CheckedCell]) -> Table:
    trees, sizes = any(cell.topk > 1 for cell in cells), len({c.draft_tp for c in cells if c.draft_tp}) > 1
    rows = [
        [
            cell.run,
            str(cell.num_steps),
            *_tree(cell, trees),
            *([str(cell.draft_tp or "-")] if sizes else []),
            str(cell.batch_size),
            number(cell.measured_ms, 2),
            number(cell.predicted_ms, 2),
            f"{number(cell.lo_ms, 2)}-{number(cell.hi_ms, 2)}",
            signed_share(cell.error),
            "yes" if cell.inside else "no",
        ]
        for cell in cells
    ]
    setting = ["steps", *_TREE[: trees * 2], *(["draft TP"] if sizes else []), "batch"]
    names = ["<run", *setting, "cycle ms", "predicted", "<90 %", "off", "inside"]
    return table(names, with_short_names(names, rows))


def _checked_drafts(cells: Sequence[CheckedCell]) -> list[RenderableType]:
    """Return predicted against measured draft phases, where they were timed."""
    rows = [
        [
            cell.run,
            str(cell.num_steps),
            str(cell.batch_size),
            str(cell.draft_tp or "-"),
            number(cell.draft.measured_ms, 3),
            number(cell.draft.predicted_ms, 3),
            f"{number(cell.draft.lo_ms, 3)}-{number(cell.draft.hi_ms, 3)}",
            signed_share(cell.draft.error),
            "yes" if cell.draft.inside else "no",
        ]
        for cell in cells
        if cell.draft is not None
    ]
    names = ["<run", "steps", "batch", "draft TP", "draft ms", "predicted", "<90 %", "off", "inside"]
    return [table(names, with_short_names(names, rows))] if rows else []
