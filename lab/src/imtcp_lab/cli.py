"""The command ``lab``: one program, subcommands from the modules listed here.

A module that adds subcommands has a function ``register(subparsers)``, which
calls ``subparsers.add_parser(...)`` and ``set_defaults(handler=function)``.
The handler gets the parsed arguments and returns the exit code.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import signal
import sys
from collections.abc import Sequence

from imtcp_lab import __version__
from imtcp_lab.job import LabError, MissingPrerequisite

#: Modules with a ``register(subparsers)``, in the order of ``lab --help``.
MODULES: tuple[str, ...] = (
    "imtcp_lab.vm.commands",
    "imtcp_lab.netns.commands",
    "imtcp_lab.commands",
    "imtcp_lab.demo",
    "imtcp_lab.run",
    "imtcp_lab.papers",
    "imtcp_lab.rules",
    "imtcp_lab.veth",
    "imtcp_lab.loss_schedule",
)

#: Exit codes besides 0 and argparse's 2 (wrong usage).
EXIT_FAILED = 1
EXIT_PREREQUISITE = 3
EXIT_LAB = 4
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141

EPILOG = """\
environment:
  IMTCP_PROGRAMS   directory with imtcp and imtcp-load (target/release)
  IMTCP_ROOT       the checkout, when it is not around the work directory

exit codes:
  0 done   1 the script or experiment failed   2 wrong usage
  3 something is missing on this machine   4 the laboratory failed   130 interrupted
"""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line, from every module that exists."""
    parser = argparse.ArgumentParser(
        prog="lab",
        description="Run imtcp experiments on real kernels, in virtual or real time.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"imtcp-lab {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in MODULES:
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name).register(subparsers)
    return parser


def _terminate(signum: int, frame: object) -> None:
    """Makes SIGTERM unwind like Ctrl-C, so that everything cleans up."""
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script."""
    args = build_parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return int(args.handler(args))
    except MissingPrerequisite as error:
        print(f"lab: {error}", file=sys.stderr)
        return EXIT_PREREQUISITE
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return EXIT_LAB
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_PIPE
    except OSError as error:
        # A full disk, or a directory without write permission: saved points stay complete.
        where = f"{error.filename}: " if error.filename else ""
        print(f"lab: {where}{error.strerror or error}", file=sys.stderr)
        return EXIT_LAB
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
