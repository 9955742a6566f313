"""What `toolkit report` wrote, for people: the answer of each group in lines of 80 columns."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from toolkit.forecast.group_choice import group_text
from toolkit.report.forecast_text import headline
from toolkit.report.page.health import health_of
from toolkit.report.tables import marked, rendered
from toolkit.schema.report import GroupAnswer, ReportFacts, WrittenReport


def written_text(facts: ReportFacts, report: WrittenReport) -> str:
    """Return each group's answer under its title, how sound the recordings are, and where the page is."""
    parts: list[RenderableType] = []
    for answer in facts.answers:
        parts += [Text(group_text(answer.group), style="bold"), marked(" ", _answer_text(answer))]
    if facts.not_fitted:
        parts.append(Text(f"Nothing was fitted: {facts.not_fitted}"))
    health = health_of(facts)
    failed, warned = _count(len(health.failed), "check"), _count(len(health.warnings), "warning")
    parts.append(Text(f"{failed} failed, {warned}: first on the page"))
    parts.append(Text(f"wrote {report.report} ({report.bytes / 1000:,.0f} kB): open it in a browser"))
    return rendered(parts)


def _answer_text(answer: GroupAnswer) -> str:
    if answer.refused is not None or answer.forecast is None:
        return f"Cannot tell: {answer.refused or 'nothing is forecast of this group'}."
    return f"{headline(answer.forecast)}: {answer.forecast.recommendation.why}."


def _count(number_of: int, noun: str) -> str:
    return f"{number_of} {noun}{'' if number_of == 1 else 's'}"
