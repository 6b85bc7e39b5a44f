"""Options and output that ``lab vm run`` and ``lab netns run`` share."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from imtcp_lab.job import Job, JobResult, LabError, Runner

T = TypeVar("T")

#: Files written beside the results, unless the job left files with these names.
LOG_NAME = "log.txt"
ENVIRONMENT_NAME = "environment.json"


def positive(text: str) -> float:
    """An argument that must be a positive number."""
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"not positive: {text}")
    return value


def count(text: str) -> int:
    """An argument that must be a whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"not 1 or more: {text}")
    return value


def listed(kind: Callable[[str], T]) -> Callable[[str], list[T]]:
    """An argument with several values of a kind, separated by commas; errors name the wrong
    value."""

    def parse(text: str) -> list[T]:
        out = []
        for part in text.split(","):
            try:
                out.append(kind(part))
            except ValueError as error:
                what = getattr(kind, "__name__", "value")
                raise argparse.ArgumentTypeError(f"invalid {what} value: {part!r}") from error
        return out

    return parse


def natural(text: str) -> int:
    """An argument that must be a whole number of at least 0."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"negative: {text}")
    return value


def add_arguments(parser: argparse.ArgumentParser, seconds: str) -> None:
    """Adds the arguments of every ``run``; `seconds` names the job's clock."""
    parser.add_argument("script", metavar="SCRIPT", type=Path, help="POSIX shell script to run")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="write what the script leaves in $OUT here"
    )
    parser.add_argument(
        "--file",
        metavar="F",
        dest="files",
        type=Path,
        action="append",
        default=[],
        help="input file (or directory) to put into the script's work directory",
    )
    parser.add_argument(
        "--seed", metavar="N", type=natural, default=1, help="the job's SEED (default 1)"
    )
    parser.add_argument(
        "--limit",
        metavar="S",
        type=positive,
        default=300.0,
        help=f"kill it after so many {seconds} (default 300)",
    )
    add_json(parser)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds ``--json``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")


def read_job(args: argparse.Namespace) -> Job:
    """The job that these arguments describe."""
    files: dict[str, bytes] = {}
    try:
        script = args.script.read_text()
        for path in args.files:
            inside = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
            if not inside:
                raise LabError(f"no file to bring along: {path}")
            for member in inside:
                name = str(Path(path.resolve().name) / member.relative_to(path))
                files[name] = member.read_bytes()
    except OSError as error:
        raise LabError(f"{error.filename}: {error.strerror}") from error
    return Job(script, files, args.seed, args.limit)


def run_and_report(args: argparse.Namespace, runner: Runner, unit: str) -> int:
    """Runs the job, writes and prints its results; returns 0, or 1 if the script failed."""
    job = read_job(args)
    started = time.monotonic()
    result = runner.run(job, _progress(unit))
    wall_s = time.monotonic() - started
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    if args.out is not None:
        write_results(result, args.out)
    if args.json:
        print(json.dumps(as_json(result, wall_s), indent=1))
    else:
        print(result.log, end="" if result.log.endswith("\n") or not result.log else "\n")
        where = f" in {args.out}" if args.out is not None else " (no --out: not kept)"
        print(
            f"lab: exit code {result.exit_code}, {len(result.files)} result files{where}, "
            f"{wall_s:.1f} s, kernel {result.environment['kernel']}",
            file=sys.stderr,
        )
        if result.environment.get("missing"):
            print(f"lab: not available: {result.environment['missing']}", file=sys.stderr)
    return 0 if result.exit_code == 0 else 1


def _progress(unit: str) -> Callable[[float], None] | None:
    if not sys.stderr.isatty():
        return None
    return lambda seconds: print(f"\r{seconds:8.1f} {unit}", end="", file=sys.stderr, flush=True)


def write_results(result: JobResult, directory: Path) -> None:
    """Writes the result files, the log and the environment below `directory`."""
    extra = {
        LOG_NAME: result.log.encode(),
        ENVIRONMENT_NAME: json.dumps(dict(result.environment), indent=1).encode() + b"\n",
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in {**extra, **result.files}.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise LabError(f"cannot write results: {error.filename}: {error.strerror}") from error


def as_json(result: JobResult, wall_s: float) -> dict[str, object]:
    """The result as JSON, with digests of files; their contents are in ``--out``."""
    files = [
        {"name": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in sorted(result.files.items())
    ]
    return {
        "exit_code": result.exit_code,
        "files": files,
        "log": result.log,
        "environment": dict(result.environment),
        "wall_s": round(wall_s, 3),
    }
