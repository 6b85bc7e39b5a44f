"""Result files: a directory per measured point, either complete or absent.

``meta.json`` holds the schema's version, the scenario, seed, commit, environment (exact kernel,
QEMU, digests) and the digest of all input.  Each raw table is a Parquet file beside it.  Figures
and tables can be drawn again from these files, without a run.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from imtcp_lab import __version__
from imtcp_lab.engine import paths
from imtcp_lab.job import LabError
from imtcp_lab.raw import Tables
from imtcp_lab.scenario import Scenario

SCHEMA_VERSION = 1
#: With another version of these programs, an old result does not count. Both are in the guest's
#: image, and another image changes the sample of a seed. So this also holds for the kernel's own
#: controls.
_PROGRAMS = ("imtcp-load", "imtcp")


@dataclass(frozen=True)
class Point:
    """One measured scenario."""

    scenario: Scenario
    tables: Tables
    meta: Mapping[str, Any]


def ready(out: Path) -> None:
    """Creates the output directory, before any work that could not be saved."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"--out {out}: {error.strerror}") from error


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file so that readers see either the old or the new content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """The same for text, in UTF-8."""
    write_bytes(path, text.encode())


def plain(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A value as JSON can hold it: NaN and infinities become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def write_json(
    path: Path,
    value: Any,  # noqa: ANN401 - any JSON value
    indent: int | None = 2,
) -> None:
    """Writes JSON; without indent in as few bytes as possible."""
    separators = None if indent else (",", ":")
    text = json.dumps(plain(value), indent=indent, separators=separators, allow_nan=False)
    write_text(path, text + "\n")


def kept(name: str) -> Path:
    """The file in the repository with an experiment's rows, to draw and judge them again."""
    return paths.checkout() / "lab" / "results" / f"{name}.json"


def commit() -> str:
    """The checkout's commit, with ``-dirty`` if tracked files other than these rows differ."""
    git = ["git", "-C", str(paths.checkout())]
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    if not head:
        return "unknown"
    differs = [*git, "diff", "--quiet", "HEAD", "--", ".", ":(exclude)lab/results"]
    return head + ("-dirty" if subprocess.run(differs, check=False).returncode else "")


#: Sources of the programs that run in the kernel, and of their algorithms.
_PROGRAM_SOURCES = ("bpf", "core/include")


def told_of(measured_at: Sequence[str]) -> str:
    """The commits as text for people.

    It says how many later commits changed the programs in the kernel, because stored rows may be
    from rules that no longer ship.
    """
    told = ", ".join(measured_at) or "-"
    if len(measured_at) != 1:
        return told
    git = ["git", "-C", str(paths.checkout()), "rev-list", "--count"]
    since = subprocess.run(
        [*git, f"{measured_at[0].removesuffix('-dirty')}..HEAD", "--", *_PROGRAM_SOURCES],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    # If the history lacks this commit, or there is no history, the count is unknown.
    if since in ("", "0"):
        return told
    later = "one later commit" if since == "1" else f"{since} later commits"
    return f"{told} ({later} changed what the kernel loads: {', '.join(_PROGRAM_SOURCES)})"


def commits(points: Iterable[Point]) -> list[str]:
    """The commits at which the points were measured; saved points may be older."""
    return sorted({str(point.meta["commit"]) for point in points})


def params(points: Iterable[Point]) -> dict[str, Any]:
    """Parameters in force by variant and control, where imtcp reported them; seeds do not
    differ."""
    out = {}
    for point in points:
        told = point.meta["environment"].get("params")
        if told:
            scenario = point.scenario
            out["-".join(filter(None, (scenario.variant, scenario.control.name)))] = told
    return out


def _program_digest(name: str) -> str:
    try:
        return hashlib.sha256((paths.programs() / name).read_bytes()).hexdigest()
    except FileNotFoundError:
        return "absent"


def input_digest(scenario: Scenario, runner: object) -> str:
    """A digest of all our input that decides the result of a deterministic run."""
    job = scenario.job()
    # A cluster runs the same job, so only its inner runner counts.
    runner = getattr(runner, "inner", runner)
    parts = [
        str(SCHEMA_VERSION),
        type(runner).__name__,
        str(getattr(runner, "kernel", "")),
        job.warmup,
        job.script,
        str(job.seed),
        *map(_program_digest, _PROGRAMS),
    ]
    for name, content in sorted(job.files.items()):
        parts += [name, hashlib.sha256(content).hexdigest()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def save(
    directory: Path,
    scenario: Scenario,
    tables: Tables,
    environment: Mapping[str, Any],
    digest: str,
) -> Point:
    """Writes one point and replaces an earlier one as a whole."""
    meta = {
        "schema": SCHEMA_VERSION,
        "key": scenario.key,
        "control": scenario.control.name,
        "variant": scenario.variant,
        "seed": scenario.seed,
        "scenario": scenario.parameters(),
        "digest": digest,
        "commit": commit(),
        "lab": __version__,
        "environment": dict(environment),
    }
    directory.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{scenario.key}.", dir=directory))
    try:
        for name, table in tables.items():
            table.write_parquet(part / f"{name}.parquet", compression="zstd")
        write_json(part / "meta.json", meta)
        part.chmod(0o755)
        final = directory / scenario.key
        if final.exists():
            shutil.rmtree(final)
        part.rename(final)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return Point(scenario, tables, plain(meta))


def _read_meta(place: Path) -> dict[str, Any]:
    """The metadata of a point; empty if they are absent, broken or of another schema."""
    try:
        meta = json.loads((place / "meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return meta if meta.get("schema") == SCHEMA_VERSION else {}


def _read_point(place: Path, scenario: Scenario, meta: Mapping[str, Any]) -> Point | None:
    """The point with its tables; None if a table cannot be read, so that it runs again."""
    try:
        tables = {file.stem: pl.read_parquet(file) for file in sorted(place.glob("*.parquet"))}
    except (OSError, pl.exceptions.PolarsError):
        return None
    return Point(scenario, tables, meta)


def load(directory: Path, scenario: Scenario, digest: str | None = None) -> Point | None:
    """The saved point, if it is complete, readable and has the given digest."""
    place = directory / scenario.key
    meta = _read_meta(place)
    if not meta or (digest is not None and meta.get("digest") != digest):
        return None
    return _read_point(place, scenario, meta)


def take_over(
    directory: Path, others: Iterable[Path], wanted: Iterable[tuple[Scenario, str]]
) -> list[Point]:
    """Copies points that another experiment measured at this commit into `directory`.

    `wanted` has the scenarios, each with its digest.
    """
    here = commit()
    places = {}
    # A name that begins with a dot is incomplete.
    for place in (place for other in others for place in other.glob("[!.]*")):
        meta = _read_meta(place)
        if meta.get("commit") == here:
            places[meta.get("digest")] = place, meta
    out = []
    for scenario, digest in wanted:
        if digest in places:
            place, meta = places[digest]
            point = _read_point(place, scenario, meta)
            if point is not None:
                out.append(save(directory, scenario, point.tables, meta["environment"], digest))
    return out


def record(rows: list[dict[str, Any]], summaries: list[dict[str, Any]]) -> dict[str, Any]:
    """The JSON that a command prints and stores: rows, their ensembles, and the commit."""
    return plain(
        {"schema": SCHEMA_VERSION, "commit": commit(), "rows": rows, "summaries": summaries}
    )
