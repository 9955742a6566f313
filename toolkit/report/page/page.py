"""The whole page: one HTML file that needs nothing else, not even a network."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from toolkit.report.page.calibrations import calibration_tables
from toolkit.report.page.health import health_of, runs_table
from toolkit.report.page.section import Section, group_section, unfitted_section
from toolkit.schema.inspection import RunReport
from toolkit.schema.report import ReportFacts

_CODE = re.compile(r"`(?P<ticked>[^`]+)`|(?P<name>(?<![\w-])--[a-z][a-z-]+|\b[a-z][a-z0-9_]*_us\b)")
_MOST_LISTED = 8  # groups; more are behind a word, so that health comes first
_MOST_SHOWN_AT_ONCE = 4  # groups; of more the page shows one at a time


def report_page(facts: ReportFacts) -> str:
    """Return the page of everything that was read, fitted and forecast; names in it are escaped."""
    environment = Environment(
        loader=PackageLoader("toolkit.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["with_code"] = with_code
    environment.filters["whole_words"] = whole_words
    style, script = (_source(environment, name) for name in ("page.css", "page.js"))
    sections = _sections(facts)
    return environment.get_template("page.html.j2").render(
        facts=facts,
        title=_title(sections),
        health=health_of(facts),
        sections=sections,
        many=len(sections) > _MOST_LISTED,
        one_at_a_time=len(sections) > _MOST_SHOWN_AT_ONCE,
        calibrations=calibration_tables(facts.inspection.runs),
        runs=runs_table(facts.inspection.runs),
        style=Markup(style),  # a file of this package
        script=Markup(script),
        policy=_policy(style, script),
        numbers=_what_ifs(sections),
    )


def with_code(said: str) -> Markup:
    """Return a sentence, escaped, with flags, terms and what stands in backticks as code."""
    return Markup(_CODE.sub(_as_code, str(escape(said))))


def _as_code(found: re.Match[str]) -> str:
    if found["ticked"]:
        return f"<code>{found['ticked']}</code>"
    return f'<code class="word">{found["name"]}</code>'


def whole_words(command: str) -> Markup:
    """Return a command, escaped, that a line ends only between the words of."""
    return Markup(" ").join(Markup('<span class="word">{}</span>').format(word) for word in command.split())


def _source(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _policy(style: str, script: str) -> str:
    """Return a policy: only the page's own style and script take effect, and nothing is fetched."""
    return f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _sections(facts: ReportFacts) -> tuple[Section, ...]:
    made = [group_section(place, answer, facts) for place, answer in enumerate(facts.answers)]
    if facts.model is None:
        why = facts.not_fitted or "nothing was fitted"
        for place, runs in enumerate(_servers(facts.inspection.runs)):
            made.append(unfitted_section(place, runs, why))
    return tuple(made)


def _servers(runs: Iterable[RunReport]) -> list[list[RunReport]]:
    """Return runs by server, those of calibrations alone left out."""
    servers: dict[tuple[object, ...], list[RunReport]] = {}
    for run in runs:
        if run.configurations or run.calibration is None:
            servers.setdefault((run.engine, run.model, run.gpu, run.tp_size), []).append(run)
    return list(servers.values())


def _title(sections: tuple[Section, ...]) -> str:
    if not sections:
        return "what was read"
    return sections[0].title if len(sections) == 1 else f"{len(sections)} groups of runs"


def _what_ifs(sections: tuple[Section, ...]) -> list[dict[str, Any]]:
    return [section.what_if for section in sections if section.what_if is not None]
