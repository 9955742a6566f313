"""Warnings on stderr: a sentence a line for programs, wrapped at words for a terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable

import click

_INDENT = " " * len("toolkit: ")
_NARROWEST = 40


def print_warnings(sentences: Iterable[str]) -> None:
    """Print sentences as warnings; of many that say one thing of other runs the first stands for all."""
    from toolkit.report.alike import alike_together

    for sentence in alike_together(sentences):
        print_sentence(f"warning: {sentence}")


def print_sentence(said: str) -> None:
    """Print one sentence on stderr, a terminal's lines ended between words."""
    line = f"toolkit: {said}"
    if sys.stderr.isatty():
        width = max(shutil.get_terminal_size((80, 24)).columns, _NARROWEST)
        line = textwrap.fill(
            line, width, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
        )
    click.echo(line, err=True)
