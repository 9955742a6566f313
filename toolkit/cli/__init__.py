"""The command line: one command per module, found by name and imported when it is used."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import NoReturn

import click

from toolkit import __version__
from toolkit.cli.warning_lines import print_sentence
from toolkit.errors import BadInputError, ToolkitError

INTERRUPTED = 130  # as a shell reports a process that SIGINT ended
BUG = 1

# What a name or a disk is to blame for, wherever it is met.
_NO_BUGS = (errno.ENAMETOOLONG, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ELOOP)

# Name -> "module:command". Only what exists: a command is listed once its module is there.
COMMANDS = {
    "profile": "toolkit.cli.profile:profile_command",
    "probe-path": "toolkit.cli.probe_path:probe_path_command",
    "inspect": "toolkit.cli.inspect:inspect_command",
    "calibrate": "toolkit.cli.calibrate:calibrate_command",
    "model": "toolkit.cli.model:model_command",
    "predict": "toolkit.cli.predict:predict_command",
    "report": "toolkit.cli.report:report_command",
    "demo": "toolkit.cli.demo:demo_command",
}

_ENDS = """
Exit codes: 0 done, 1 a bug, 2 usage, 3 bad input, 4 nothing captured,
5 the data does not determine what was asked, 130 interrupted.
Next: `toolkit COMMAND --help` has an example and the step after it. New here:
docs/quick-start-sglang.md or docs/quick-start-vllm.md in the source tree;
docs/index.md lists all documents, docs/reference.md every file and key.
"""


class ReaderGoneError(Exception):
    """What reads our output (head, a pager) has closed it."""


class LazyGroup(click.Group):
    """A group whose commands are imported when named: `--version` must not pay for scipy."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which a user needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name].split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Say how commands end and where to read on, below the list of commands."""
        formatter.write(_ENDS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the group's own options; `--help` and `--version` print and end here."""
        with _reader_may_leave():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command that was named."""
        with _reader_may_leave():
            return super().invoke(ctx)


@click.group("toolkit", cls=LazyGroup)
@click.version_option(__version__, prog_name="toolkit", message="%(prog)s %(version)s")
def command_line() -> None:
    """Profile speculative decoding, fit its cost and predict which settings pay.

    \b
    toolkit inspect traces/
    toolkit model fit traces/ -o cost-model.json
    toolkit predict --accept-rate 0.36 --engine sglang --tp-size 1
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: that of the process) and return its exit code.

    0 done, 1 bug, 2 usage, 3 bad input, 4 nothing captured, 5 not determined, 130 interrupted.
    """
    _replace_unprintable()
    try:
        code = command_line.main(
            args=None if argv is None else list(argv),
            prog_name="toolkit",
            standalone_mode=False,
            color=False if os.environ.get("NO_COLOR") else None,
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (ReaderGoneError, BrokenPipeError):
        _discard_output()
        return 0
    except ToolkitError as error:
        print_sentence(str(error))
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("toolkit: interrupted", err=True)
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_BUGS:
            place = str(error.filename or "a file")
            place = place if len(place) < 200 else f"{place[:60]}..."
            print_sentence(f"{place} cannot be read or written ({error.strerror}); give another place")
            return BadInputError.exit_code
        return _bug(error)


def main_entry() -> NoReturn:
    """Run the command line of the process and end it (the installed `toolkit` script)."""
    sys.exit(main())


def _bug(error: Exception) -> int:
    if os.environ.get("TOOLKIT_DEBUG"):
        traceback.print_exception(error)
    click.echo(
        f"toolkit: this is a bug ({type(error).__name__}: {error}); "
        "TOOLKIT_DEBUG=1 shows the traceback that a report needs",
        err=True,
    )
    return BUG


@contextlib.contextmanager
def _reader_may_leave() -> Iterator[None]:
    """Rename a broken pipe: click answers one with SystemExit(1), which looks like a bug."""
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGoneError from error


def _discard_output() -> None:
    """Give what is still buffered, and flushed when Python ends, an open file to go to."""
    with contextlib.suppress(OSError, ValueError):  # stdout is no real file, or closed already
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _replace_unprintable() -> None:
    """Print '?' for what the terminal's encoding lacks instead of failing half-way."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
