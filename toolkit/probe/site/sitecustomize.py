"""Loads the probe at start-up, for SGLang 0.5.9 and 0.5.10, which have no plugins.

Acts only when TOOLKIT_PROBE_STARTUP=1; then, and otherwise, the sitecustomize that this one hides runs.
"""

import os
import sys


def _run_next() -> None:
    """Run the next sitecustomize of sys.path, as Python would have without this folder."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    been = sys.__dict__.setdefault("_toolkit_probe_sites", set())  # two copies must not call each other
    been.add(os.path.dirname(os.path.realpath(__file__)))
    others = [folder for folder in sys.path if os.path.realpath(folder or os.curdir) not in been]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("TOOLKIT_PROBE_STARTUP") == "1":
    try:
        import toolkit_probe  # type: ignore[import-not-found, unused-ignore]

        toolkit_probe.load_at_startup()
    except Exception as error:
        sys.stderr.write(f"toolkit probe: not loaded: {error}\n")

_run_next()
