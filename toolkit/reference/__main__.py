"""python -m toolkit.reference: serve one model over HTTP until told to end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from toolkit.reference.errors import SettingError
from toolkit.reference.launch import end_with_stdin, launch
from toolkit.reference.options import argument_parser, options_of


def main(arguments: Sequence[str]) -> int:
    """Start the ranks; or, where `--tp-rank` says so, be one."""
    given = argument_parser().parse_args(list(arguments))
    try:
        options = options_of(given)
    except SettingError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if given.tp_rank is None:
        if given.end_with_stdin:
            end_with_stdin(lambda: os.kill(os.getpid(), signal.SIGTERM))
        return launch(arguments, options.tp)
    # torch takes seconds to load, and only a rank needs it
    from toolkit.reference.rank import serve_rank

    end_with_stdin(lambda: os._exit(1))  # the launcher holds the other end
    serve_rank(options, given.tp_rank, given.rendezvous)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
