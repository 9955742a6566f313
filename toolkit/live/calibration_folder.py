"""Writing a calibration as a run folder: all of it or none of it appears under its name."""

from __future__ import annotations

import datetime
import os
import re
import shutil
from pathlib import Path

from toolkit import __version__
from toolkit.errors import BadInputError
from toolkit.ingest.json_files import write_record
from toolkit.ingest.run_json import write_run_info
from toolkit.live.run_folder import free_folder
from toolkit.schema.calibration import CALIBRATION_SCHEMA, Calibration
from toolkit.schema.run import RunInfo


def write_calibration(
    out: Path, found: Calibration, engine_version: str, seconds: float, *, overwrite: bool
) -> Path:
    """Write calibration.json and run.json into a folder below `out` and return it.

    An existing folder is kept, and the new one numbered, unless `overwrite`.
    """
    folder = free_folder(out / _name(found), overwrite=overwrite)
    partial = out / f".{folder.name}.partial-{os.getpid()}"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        write_record(partial / "calibration.json", found, CALIBRATION_SCHEMA)
        write_run_info(partial / "run.json", _run_info(found, engine_version, seconds))
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
    except OSError as error:
        raise BadInputError(
            f"{folder} cannot be written ({error.strerror}); name another place with -o"
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _run_info(found: Calibration, engine_version: str, seconds: float) -> RunInfo:
    return RunInfo(
        engine="reference",
        engine_version=engine_version,
        model=found.target.name if found.target else None,
        draft_model=found.draft.name if found.draft else None,
        gpu=found.gpu,
        captured={
            "by": "calibrate",
            "complete": True,
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "toolkit": __version__,
            "seconds": round(seconds, 3),
        },
    )


def _name(found: Calibration) -> str:
    path = Path(found.target.name if found.target else "model")
    model = path.parent.name if path.name == "config.json" else path.name
    cleaned = re.sub(r"[^a-z0-9.]+", "-", model.lower()).strip("-.") or "model"
    where = f"{found.gpu_count}gpu" if found.gpu_count else "cpu"
    return f"{datetime.date.today().isoformat()}-reference-{cleaned[:40]}-calibration-{where}"
