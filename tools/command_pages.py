"""Writes the part of docs/commands/*.md that is made from the commands themselves: help and options.

    python tools/command_pages.py          writes the pages
    python tools/command_pages.py --check  says which pages are not as the commands are, and fails

What is outside the two marks of a page is written by hand and stays.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from toolkit.cli import command_line

PAGES = Path(__file__).resolve().parents[1] / "docs" / "commands"
BEGIN = "<!-- made by tools/command_pages.py from the command itself: do not edit -->"
END = "<!-- end of what is made -->"
_AS_IT_IS = "\b\n"  # click does not wrap the paragraph after it


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield each command with the words that call it; of a group, those below it."""
    context = click.Context(command_line)
    for name in command_line.list_commands(context):
        command = command_line.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ((f"{name} {below}", one) for below, one in command.commands.items())
        elif command is not None:
            yield name, command


def page_of(words: str) -> Path:
    """Return the page of a command."""
    return PAGES / f"{words.replace(' ', '-')}.md"


def made_part(words: str, command: click.Command) -> str:
    """Return help and options of a command as Markdown."""
    usage = " ".join(["toolkit", words, "[OPTIONS]", *(_argument(one) for one in _arguments(command))])
    parts = [_paragraph(text) for text in inspect.cleandoc(command.help or "").split("\n\n")]
    rows = [f"| `{_names(one)}` | {_help(one)} |" for one in _options(command)]
    table = "\n".join(["| option | what it does |", "| --- | --- |", *rows])
    return "\n\n".join([BEGIN, f"```\n{usage}\n```", *parts, table, END])


def with_made_part(page: str, words: str, command: click.Command) -> str:
    """Return a page with its made part as the command is now; an empty page gets a heading."""
    made = made_part(words, command)
    if BEGIN not in page or END not in page:
        return (page or f"# `toolkit {words}`\n").rstrip() + f"\n\n{made}\n"
    before, _, rest = page.partition(BEGIN)
    return before + made + rest.partition(END)[2]


def stale() -> dict[Path, str]:
    """Return the pages that are not as the commands are, each with its right text."""
    found = {}
    for words, command in commands():
        path = page_of(words)
        now = path.read_text(encoding="utf-8") if path.exists() else ""
        right = with_made_part(now, words, command)
        if right != now:
            found[path] = right
    return found


def _paragraph(text: str) -> str:
    """Return a paragraph of help, an example as code."""
    return f"```\n{text.removeprefix(_AS_IT_IS)}\n```" if text.startswith(_AS_IT_IS) else text


def _arguments(command: click.Command) -> list[click.Argument]:
    return [one for one in command.params if isinstance(one, click.Argument)]


def _argument(one: click.Argument) -> str:
    return one.metavar or (one.name or "").upper()


def _options(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option) and not one.hidden]


def _names(one: click.Option) -> str:
    value = "" if one.is_flag or one.count else " " + _value(one)
    return (", ".join(one.opts) + value).replace("|", "\\|")


def _value(one: click.Option) -> str:
    kind = one.type
    if one.metavar:
        return one.metavar
    if isinstance(kind, click.Choice):
        return "|".join(map(str, kind.choices))
    if isinstance(kind, click.Path):
        return "PATH"
    if isinstance(kind, click.types.IntParamType):
        return "N"
    return "X" if isinstance(kind, click.types.FloatParamType) else "TEXT"


def _help(one: click.Option) -> str:
    text = " ".join((one.help or "").split())
    said = re.sub(r"\s*\[(default: [^]]*)\]$", r" (\1)", text)
    if one.required:
        said += " Required."
    if one.show_default and one.default is not None and not one.is_flag:
        said += f" (default: `{one.default}`)"
    return said.replace("|", "\\|").strip()


def main(check: bool) -> int:
    """Write the pages, or with `check` only name those that would change; return the exit code."""
    found = stale()
    for path, text in found.items():
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{'not as its command is' if check else 'wrote'}: docs/commands/{path.name}\n")
    return int(check and bool(found))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
