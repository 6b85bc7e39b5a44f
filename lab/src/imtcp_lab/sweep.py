"""Runs scenarios in parallel, shows progress, stores finished points."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TextIO

from imtcp_lab import raw, results
from imtcp_lab.job import LabError, MissingPrerequisite, Runner
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario

#: Virtual seconds of a run beside its clock: building, loading, files.
SETUP_S = 3.0


class Cancelled(Exception):
    """Raised in a run to end it, because another run failed or the user pressed Ctrl-C."""


class ProgressBar:
    """A line on a terminal, or a line now and then elsewhere, with the remaining time."""

    WIDTH = 28
    #: Seconds between lines without a terminal.
    QUIET_S = 30.0

    def __init__(self, total_s: float, label: str, stream: TextIO | None = None) -> None:
        self.total_s = max(total_s, 1e-9)
        self.label = label
        self.stream = sys.stderr if stream is None else stream
        self.started = time.monotonic()
        self.last_text = 0.0
        self.finished = 0
        self.points = 0

    def show(self, done_s: float, force: bool = False) -> None:
        """Draws the line, unless it was drawn a moment ago."""
        now = time.monotonic()
        tty = self.stream.isatty()
        if not force and now - self.last_text < (0.2 if tty else self.QUIET_S):
            return
        self.last_text = now
        share = min(done_s / self.total_s, 1.0)
        elapsed_s = now - self.started
        left = ""
        if share > 0.01:
            left = f"  {_clock(elapsed_s * (1 - share) / share)} left"
        filled = round(share * self.WIDTH)
        bar = "█" * filled + "░" * (self.WIDTH - filled)
        text = f"{self.label} {bar} {share:4.0%}  {self.finished}/{self.points}{left}"
        if tty:
            self.stream.write(f"\r\x1b[K{text}")
        else:
            self.stream.write(f"{text}\n")
        self.stream.flush()

    def close(self) -> None:
        """Clears the line."""
        if self.stream.isatty():
            self.stream.write("\r\x1b[K")
            self.stream.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


def load_saved(
    scenarios: Sequence[Scenario], directory: Path, *, partial: bool = False
) -> list[Point]:
    """All points as saved, from any version of the programs; runs nothing."""
    points = [results.load(directory, scenario) for scenario in scenarios]
    absent = [s.key for s, point in zip(scenarios, points, strict=True) if point is None]
    if absent and (not partial or len(absent) == len(scenarios)):
        raise LabError(
            f"{len(absent)} of {len(scenarios)} points are not saved in {directory} ({absent[0]} is"
            " the first): without --redraw they are run; lab report draws what lab/results keeps"
        )
    if absent:
        print(f"{len(absent)} of {len(scenarios)} points are missing", file=sys.stderr)
    return [point for point in points if point is not None]


def run_all(
    scenarios: Sequence[Scenario],
    runner: Runner,
    directory: Path,
    *,
    jobs: int,
    fresh: bool = False,
    label: str = "",
    others: Sequence[Path] = (),
) -> list[Point]:
    """All points, in the given order.

    A saved point counts if nothing changed.  `others` are directories of other experiments: their
    points at this commit count, too.  All other points run.

    If a point fails, the others still run, and the error at the end names all failed points;
    complete points stay saved.  If this machine lacks a prerequisite, all ends at once.
    """
    digests = {s.key: results.input_digest(s, runner) for s in scenarios}
    if len(digests) != len(scenarios):
        raise ValueError("two scenarios have the same key")
    found: dict[str, Point] = {}
    for scenario in scenarios:
        if not fresh:
            point = results.load(directory, scenario, digests[scenario.key])
            if point is not None:
                found[scenario.key] = point
    if not fresh and len(found) < len(scenarios):
        wanted = [(s, digests[s.key]) for s in scenarios if s.key not in found]
        taken = results.take_over(directory, others, wanted)
        found |= {point.scenario.key: point for point in taken}
    missing = [s for s in scenarios if s.key not in found]
    if found:
        print(f"{len(found)} of {len(scenarios)} points are saved already", file=sys.stderr)
    # Equal jobs (such as *none* of several variants) run once.
    different = list({digests[s.key]: s for s in reversed(missing)}.values())[::-1]
    if different:
        prepare = getattr(runner, "prepare", None)
        if prepare is not None:
            for warmup in sorted({s.job().warmup for s in different}):
                prepare(warmup)
        ran = _run_missing(different, runner, directory, digests, jobs, label)
        by_digest = {digests[point.scenario.key]: point for point in ran}
        for scenario in missing:
            digest = digests[scenario.key]
            point = by_digest[digest]
            if point.scenario.key != scenario.key:
                environment = point.meta["environment"]
                point = results.save(directory, scenario, point.tables, environment, digest)
            found[scenario.key] = point
    return [found[s.key] for s in scenarios]


def _run_missing(
    scenarios: Sequence[Scenario],
    runner: Runner,
    directory: Path,
    digests: dict[str, str],
    jobs: int,
    label: str,
) -> list[Point]:
    cancelled = threading.Event()
    done_s: dict[str, float] = {}
    bar = ProgressBar(sum(s.times.total_s + SETUP_S for s in scenarios), label)
    bar.points = len(scenarios)

    def one(scenario: Scenario) -> Point:
        expected_s = scenario.times.total_s + SETUP_S

        def progress(seconds: float) -> None:
            done_s[scenario.key] = min(seconds, expected_s)
            if cancelled.is_set():
                raise Cancelled

        if cancelled.is_set():
            raise Cancelled
        try:
            result = runner.run(scenario.job(), progress)
        except MissingPrerequisite:
            raise
        except LabError as error:
            raise LabError(f"{scenario.key}: {error.message}", error.console) from error
        if result.exit_code != 0:
            raise LabError(f"{scenario.key} ended with code {result.exit_code}", result.log[-4000:])
        if "background-ended" in result.files:
            raise LabError(
                f"{scenario.key}: the transfer ended before the measurement did",
                result.log[-4000:],
            )
        tables = raw.read_tables(result)
        absent = [name for name in scenario.leaves if name not in tables or tables[name].is_empty()]
        if absent:
            raise LabError(
                f"{scenario.key}: the run left no {', '.join(absent)}", result.log[-4000:]
            )
        environment = {**result.environment, "params": raw.params_in_force(result)}
        if result.cost is not None:
            environment["cost"] = vars(result.cost)
        point = results.save(directory, scenario, tables, environment, digests[scenario.key])
        done_s[scenario.key] = expected_s
        bar.finished += 1
        return point

    # *none* is the last of its seed and variant, because it takes a third of the others' time. So
    # no processor waits long at the end, and an interrupted sweep has points that can be compared.
    variants = {variant: n for n, variant in enumerate(dict.fromkeys(s.variant for s in scenarios))}
    in_turn = sorted(scenarios, key=lambda s: (s.seed, variants[s.variant], s.control.is_none))
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures: list[Future[Point]] = [pool.submit(one, s) for s in in_turn]
        failed: list[LabError] = []
        try:
            pending = set(futures)
            while pending:
                done, pending = wait(pending, timeout=0.3, return_when=FIRST_COMPLETED)
                bar.show(sum(done_s.values()))
                for future in done:
                    try:
                        future.result()
                    except MissingPrerequisite:
                        raise
                    except LabError as error:
                        failed.append(error)
        except BaseException as error:
            # Also after Ctrl-C: the runs notice it at their next progress and clean up.
            cancelled.set()
            if isinstance(error, KeyboardInterrupt):
                bar.close()
                print(
                    "stopping the guests; complete points are saved, and the same command goes on"
                    " from there",
                    file=sys.stderr,
                )
            for future in futures:
                future.cancel()
            raise
        finally:
            bar.close()
    if failed:
        told = "\n".join(str(error) for error in failed)
        raise LabError(
            f"{len(failed)} of {len(scenarios)} points failed, the others are saved:\n{told}"
        )
    return [future.result() for future in futures]
