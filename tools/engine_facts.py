"""Write tests/data/engine-facts: which functions that the probe wraps exist in which engine release.

    python tools/engine_facts.py tests/data/engine-facts            downloads each wheel, keeps none
    python tools/engine_facts.py tests/data/engine-facts --wheels DIR    reads wheels that are there already

Sources are parsed, never imported. A function that a release has renamed is written down as missing, and
tests/probe/test_targets.py then fails with its name.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.util
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

RELEASES = (
    ("sglang", "0.5.9"),
    ("sglang", "0.5.15"),
    ("sglang", "0.5.23"),
    ("vllm", "0.22.0"),
    ("vllm", "0.33.0"),
)
# What an engine checks a file of ours by: whole functions, kept with package and version for the tests.
RULES = (
    ("vllm", "0.33.0", "vllm/v1/spec_decode/dynamic/utils.py",
     ("validate_and_normalize_dynamic_sd_schedule", "build_dynamic_sd_schedule_lookup")),
    ("sglang", "0.5.15", "sglang/srt/speculative/adaptive_spec_params.py", ("_load_adaptive_config",)),
)  # fmt: skip
TARGETS = Path(__file__).resolve().parent.parent / "toolkit/probe/site/toolkit_probe/targets.py"
# Any machine may look: the wheel need not fit its Python or system.
ANY_MACHINE = ("--python-version", "3.11", "--platform", "manylinux_2_34_x86_64", "--platform",
               "manylinux_2_28_x86_64", "--platform", "any")  # fmt: skip


def main() -> int:
    """Write a file a release; return 1 when a target is missing in one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of the facts")
    parser.add_argument("--wheels", type=Path, help="folder that holds the wheels, also in subfolders")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    table = load_targets()
    missing = 0
    for engine, version in RELEASES:
        with tempfile.TemporaryDirectory() as folder:
            wheel = find_wheel(given.wheels or Path(folder), engine, version, download=not given.wheels)
            facts = facts_of(wheel, engine, version, table.targets_of(engine, version))
            write_rules(given.out.parent / "engine-rules", wheel, engine, version)
        path = given.out / f"{engine}-{version}.json"
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        gone = [one["name"] for one in facts["targets"] if one["signature"] is None]
        missing += len(gone)
        sys.stdout.write(f"{path}: {len(facts['targets'])} targets, missing: {', '.join(gone) or 'none'}\n")
    return 1 if missing else 0


def write_rules(out: Path, wheel: Path, engine: str, version: str) -> None:
    """Write the functions that check what `predict --emit` writes, where this release has them in RULES."""
    for package, release, path, names in RULES:
        if (package, release) != (engine, version):
            continue
        with zipfile.ZipFile(wheel) as archive:
            tree = ast.parse(archive.read(path))
        kept = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name in names]
        for one in kept:
            one.body = [step for step in one.body if not _is_text(step)]
        out.mkdir(parents=True, exist_ok=True)
        head = f"# Of {package} {release}, {path}, under the Apache License 2.0; for tests. See tools/.\n"
        text = "\n\n".join(ast.unparse(one) for one in kept)
        (out / f"{package}-{release}.py.txt").write_text(f"{head}{text}\n", encoding="utf-8")


def _is_text(step: ast.stmt) -> bool:
    return isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant)


def load_targets() -> ModuleType:
    """Return the probe's table, loaded by path: it needs only the standard library."""
    spec = importlib.util.spec_from_file_location("toolkit_probe_targets", TARGETS)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{TARGETS} is missing")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def find_wheel(folder: Path, engine: str, version: str, download: bool) -> Path:
    """Return the release's wheel in a folder, after downloading it there if asked to."""
    if download:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*command, *ANY_MACHINE, "--dest", folder, f"{engine}=={version}"], check=True)
    found = sorted(folder.rglob(f"{engine}-{version}-*.whl"))
    if not found:
        raise SystemExit(f"{folder} holds no wheel of {engine} {version}; leave --wheels out to download it")
    return found[0]


def facts_of(wheel: Path, engine: str, version: str, targets: Iterable[Any]) -> dict[str, Any]:
    """Return what the release says about each target; the signature of a missing one is null."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        return {
            "package": engine,
            "version": version,
            "wheel": wheel.name,
            "targets": [fact_of(archive, names, target) for target in targets],
        }


def fact_of(archive: zipfile.ZipFile, names: set[str], target: Any) -> dict[str, Any]:
    """Return module, name and signature of one target, and the hash of the file that it was read from."""
    stem = target.module.replace(".", "/")
    path = next((name for name in (f"{stem}.py", f"{stem}/__init__.py") if name in names), None)
    fact = {"role": target.role, "module": target.module, "name": target.name, "signature": None}
    if path is None:
        return fact
    source = archive.read(path)
    fact["signature"] = signature_of(ast.parse(source), target.name)
    return {**fact, "file": path, "sha256": hashlib.sha256(source).hexdigest()}


def signature_of(tree: ast.Module, name: str) -> str | None:
    """Return the parameters of a function by qualified name, or where the module imports it from."""
    body: list[ast.stmt] = tree.body
    *path, last = name.split(".")
    for part in path:
        found = next((one for one in body if isinstance(one, ast.ClassDef) and one.name == part), None)
        if found is None:
            return None
        body = found.body
    for one in body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name == last:
            return f"({ast.unparse(one.args)})"
        if isinstance(one, ast.ImportFrom) and any((a.asname or a.name) == last for a in one.names):
            return f"imported from {one.module}"
    return None


if __name__ == "__main__":
    sys.exit(main())
