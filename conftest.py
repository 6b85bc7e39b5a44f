"""Which tests run beside each other, in which order, and which guests run (scripts/test.sh)."""

from __future__ import annotations

import pytest

#: Files whose tests boot guests of their own, the longest first. A guest uses one processor.
WITH_GUESTS = (
    "tests/test_same_bytes.py",
    "lab/tests/test_quick_figures.py",
    "tests/test_connections.py",
    "lab/tests/test_measuring.py",
    "lab/tests/test_vm_run.py",
    "tests/test_clean_machine.py",
    "tests/test_nocc.py",
    "tests/test_modes.py",
    "tests/test_kernels.py",
    "lab/tests/test_uml.py",
    "lab/tests/test_everyday.py",
    "lab/tests/test_vm_determinism.py",
    "tests/test_downloads.py",
    "tests/test_marks.py",
    "tests/test_parameters.py",
    "tests/test_rates.py",
    "tests/test_token_bucket.py",
)
#: Guests that boot although nothing changed: every verifier, a figure, and the command's own words.
ALWAYS = ("test_kernels.py", "test_quick_figures.py", "test_nocc.py", "test_parameters.py")
#: The last two on this kernel alone, since that of the fast guests takes minutes to build.
STOCK_KERNEL = "[6.1]"


def path(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def runs_always(item: pytest.Item) -> bool:
    """Does it run although nothing changed that a guest depends on?"""
    if item.get_closest_marker("vm") is None:
        return True
    name = path(item).rpartition("/")[2]
    return name in ALWAYS[:2] or (name in ALWAYS and STOCK_KERNEL in item.name)


def group(item: pytest.Item) -> str:
    """Tests of one group run one after the other; groups run beside each other."""
    if path(item) in WITH_GUESTS:
        return path(item)
    # The others share the running kernel, its network and the ports of this host.
    return path(item).partition("/")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--guests",
        choices=("all", "few"),
        default="all",
        help="few: only guests that boot although nothing changed that they depend on",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--guests") == "few":
        config.hook.pytest_deselected(items=[item for item in items if not runs_always(item)])
        items[:] = [item for item in items if runs_always(item)]
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group(item)))
    # Tests without a guest take long and mostly wait: they begin first, guests run beside them.
    order = {file: n for n, file in enumerate(WITH_GUESTS)}
    items.sort(key=lambda item: order.get(path(item), -1))
