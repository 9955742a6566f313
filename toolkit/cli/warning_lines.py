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
    """Print each sentence as a warning."""
    width = None
    if sys.stderr.isatty():
        width = max(shutil.get_terminal_size((80, 24)).columns, _NARROWEST)
    for sentence in sentences:
        line = f"toolkit: warning: {sentence}"
        if width:
            line = textwrap.fill(
                line, width, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
            )
        click.echo(line, err=True)
