"""The report page in a real Chromium: no error, every figure drawn, sliders say what `toolkit predict` says.

    python tools/check_page.py               checks pages of the recorded runs
    python tools/check_page.py --shots DIR   and writes pictures of them: light, dark, narrow, printed

Chromium is installed with apt-get where it is missing and that can be done; else the check is skipped.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from devtools import Browser, installed_browser

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"
PAGES: dict[str, list[str]] = {
    "traces": [str(ROOT / "traces"), "--accept-rate", "0.36"],
    "founding": [str(DATA / "kimi-k2.5-tp8"), "--accept-rate", "0.36"],
    "draft-tp": [str(DATA / "draft-tp"), "--accept-length", "2.5", "--draft-tp", "1,2"],
    "log": [str(DATA / "kimi-k2.5-tp8" / "server.log")],
    "run": [str(ROOT / "traces" / "2026-11-30-sglang-llama-8b-shaped-dummy-tp2-k3-b1")],
    "trees": [str(DATA / "public" / "defective.csv")],
}
_HOSTILE = "<script>window.broken=1</script><img src=x onerror=window.broken=1>"
_MOST_GROUPS = 4  # of a page, whose sliders are moved
_OFF, _OFF_MS = 0.051, 0.0051  # half of the last digit shown: tok/s, ms

FIGURES = """[...document.querySelectorAll('figure svg, form.what-if table')]
  .filter((one) => one.checkVisibility()).map((one) => {
    const box = one.getBoundingClientRect();
    const shapes = one.querySelectorAll('rect,circle,line,path,polyline,td').length;
    return [one.closest('figure,section').id, box.width, box.height, shapes]; })"""
BAD_NUMBERS = """[...document.querySelectorAll('svg *')].flatMap((one) => [...one.attributes])
  .filter((one) => /NaN|Infinity|undefined/.test(one.value)).map((one) => one.name + '=' + one.value)"""
HEADINGS = "[...document.querySelectorAll('h1,h2,h3,h4')].map((one) => Number(one.tagName[1]))"
UNNAMED = """[...document.querySelectorAll('input,button,select,svg[role=img],section,nav,figure,table')]
  .filter((one) => !(one.ariaLabel || one.getAttribute('aria-labelledby') || one.labels?.length
    || one.textContent.trim() || one.querySelector?.('caption'))).map((one) => one.outerHTML.slice(0, 90))"""
OUTSIDE = """[...document.querySelectorAll('[src],[href]')]
  .map((one) => one.getAttribute('src') || one.getAttribute('href'))
  .filter((one) => !one.startsWith('#'))"""
CUT_OR_COVERED = """[...document.querySelectorAll('figure svg')].filter((one) => one.checkVisibility())
  .flatMap((drawing) => {
    const edge = drawing.getBoundingClientRect();
    const texts = [...drawing.querySelectorAll('text')];
    const shown = texts.map((one) => [one.textContent, one.getBoundingClientRect()]);
    const cut = shown.filter(([_, box]) => box.left < edge.left - 1 || box.right > edge.right + 1
      || box.top < edge.top - 1 || box.bottom > edge.bottom + 1).map(([said]) => 'cuts "' + said + '"');
    const covered = shown.flatMap(([said, box], place) => shown.slice(place + 1).filter(([_, other]) =>
      Math.min(box.right, other.right) - Math.max(box.left, other.left) > 1
      && Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > 4)
      .map(([other]) => 'puts "' + said + '" on "' + other + '"'));
    return [...cut, ...covered].map((one) => drawing.closest('figure').id + ' ' + one);
  })"""
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
FORMS = """[...document.querySelectorAll('form.what-if')].map((form) => ({ key: form.dataset.group,
  batches: Number(form.elements.batch.max) + 1, low: Number(form.elements.accept.min),
  high: Number(form.elements.accept.max),
  allreduce: form.elements.allreduce ? Number(form.elements.allreduce.max) : 0 }))"""
MOVE = """((key, moves) => { const form = document.querySelector('form[data-group="' + key + '"]');
  form.elements.reset.click();
  for (const [name, value] of Object.entries(moves)) {
    form.elements[name].value = value;
    form.elements[name].dispatchEvent(new Event('input', { bubbles: true }));
  }
  const rows = [...form.querySelectorAll('tr[data-steps]')].map((row) => [Number(row.dataset.steps),
    row.querySelector('.cycle').textContent, row.querySelector('.speed').textContent]);
  return { rows, command: form.querySelector('.command code').textContent };
})"""


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def toolkit(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the toolkit of this checkout in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "toolkit", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
    )


def checked(browser: Browser, name: str, arguments: list[str], shots: Path | None) -> Iterator[str]:
    """Yield what is wrong with one page."""
    with tempfile.TemporaryDirectory(prefix="page-check-") as made:
        folder = Path(made)
        done = toolkit("report", *arguments, "-o", "report.html", "--json", folder=folder)
        if done.returncode:
            yield f"toolkit report ended with {done.returncode}: {done.stderr.strip()[-300:]}"
            return
        browser.look(1100)
        browser.open(folder / "report.html")
        yield from looked_at(browser)
        browser.look(400)
        if (wide := browser.value(TOO_WIDE)) > 1:
            yield f"at 400 px the page is {wide} px too wide"
        browser.look(1100)
        forms = browser.value(FORMS)[:_MOST_GROUPS]
        if forms:
            toolkit("model", "fit", arguments[0], "-o", "cost-model.json", folder=folder)
        for form in forms:
            yield from moved(browser, form, folder)
        if shots is not None:
            taken(browser, shots / name)
        yield from (f"console: {error}" for error in browser.errors)
        say(f"{name}: {len(browser.value(FIGURES))} drawings, {len(forms)} what-ifs moved")


def looked_at(browser: Browser) -> Iterator[str]:
    """Yield what is wrong before anything is touched."""
    for key, width, height, shapes in browser.value(FIGURES):
        if width < 100 or height < 30 or shapes < 2:
            yield f"figure {key} is not drawn: {width:g} x {height:g}, {shapes} shapes"
    yield from (f"a drawing holds {one}" for one in browser.value(BAD_NUMBERS))
    yield from (f"figure {one}" for one in browser.value(CUT_OR_COVERED))
    yield from (f"no name for {one}" for one in browser.value(UNNAMED))
    yield from (f"the page asks for {one}" for one in browser.value(OUTSIDE))
    levels = browser.value(HEADINGS)
    if levels[:1] != [1] or any(after > before + 1 for before, after in pairwise(levels)):
        yield f"headings are out of order: {levels}"
    if browser.value("window.broken"):
        yield "a name from a file ran as a script"


def moved(browser: Browser, form: dict[str, Any], folder: Path) -> Iterator[str]:
    """Yield where a row differs from the answer to the command that the page shows for it."""
    middle = round((form["low"] + form["high"]) / 2 + 0.013, 2)
    positions: list[dict[str, float]] = [{}, {"accept": middle, "batch": form["batches"] - 1}]
    if form["allreduce"]:
        positions.append({"batch": 0, "allreduce": form["allreduce"] // 2, "accept": middle - 0.5})
    for moves in positions:
        shown = browser.value(f"{MOVE}({json.dumps(form['key'])}, {json.dumps(moves)})")
        words = shlex.split(shown["command"])[1:]
        done = toolkit(*words, "--anyway", "--json", folder=folder)
        where = f"{form['key']} {moves}"
        if done.returncode:
            yield f"{where}: {shown['command']} ended with {done.returncode}: {done.stderr.strip()[-300:]}"
            continue
        answer = json.loads(done.stdout)["candidates"]
        yield from different(where, shown["rows"], answer)


def different(where: str, rows: list[list[Any]], answer: list[dict[str, Any]]) -> Iterator[str]:
    """Yield rows of the page that are not the candidates of the forecast."""
    by_steps: dict[int, dict[str, Any]] = {}
    for one in answer:
        by_steps.setdefault(one["num_steps"], one)
    for steps, cycle, speed in rows:
        right = by_steps[steps]
        if not right["determined"]:
            if speed != "open":
                yield f"{where}, {steps} steps: the page says {speed} of what is not determined"
            continue
        compared = ((cycle, right["cycle_ms"]["value"], _OFF_MS), (speed, right["tok_s"]["value"], _OFF))
        for shown, value, off in compared:
            told = number(shown)
            if told is None or abs(told - value) > off:
                yield f"{where}, {steps} steps: the page says {shown}, predict {value}"


def number(shown: str) -> float | None:
    """Return a number as the page shows it, None where it shows none."""
    bare = shown.lstrip("^").replace(",", "")
    return float(bare) if re.fullmatch(r"[\d.]+", bare) else None


def taken(browser: Browser, path: Path) -> None:
    """Write pictures of a page."""
    for kind, width, dark in (("light", 1100, False), ("dark", 1100, True), ("narrow", 400, False)):
        browser.look(width, dark=dark)
        browser.picture(path.with_name(f"{path.name}-{kind}.png"))
    browser.printed(path.with_name(f"{path.name}.pdf"))


def hostile_table(folder: Path) -> list[str]:
    """Return the arguments of a page whose model is named like a script."""
    rows = [
        "engine,hardware,target,tp_size,num_steps,topk,num_draft_tokens,batch_size,accept_length,cycle_ms"
    ]
    rows += [f"sglang,H200,{_HOSTILE},1,{k},1,{k + 1},1,{1 + k / 2},{10 + k + (k > 0)}" for k in (0, 1, 3, 5)]
    (folder / "measurements.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return [str(folder / "measurements.csv"), "--accept-length", "2", "--at-num-draft-tokens", "4"]


def main() -> int:
    """Check every page and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shots", type=Path, help="folder for pictures")
    parser.add_argument("--only", choices=[*PAGES, "hostile"], help="this page alone")
    asked = parser.parse_args()
    path = installed_browser()
    if path is None:
        say("== skipped: the report page in Chromium, which is not here and cannot be installed")
        return 0
    if asked.shots is not None:
        asked.shots.mkdir(parents=True, exist_ok=True)
    wrong = []
    with tempfile.TemporaryDirectory(prefix="page-check-") as made, Browser(path) as browser:
        pages = {**PAGES, "hostile": hostile_table(Path(made))}
        for name, arguments in pages.items():
            if asked.only in (None, name):
                wrong += [f"{name}: {text}" for text in checked(browser, name, arguments, asked.shots)]
    say("\n".join(wrong) or "pages are as they should be")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
