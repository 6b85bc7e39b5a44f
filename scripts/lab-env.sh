#!/bin/sh
# Create .venv with the laboratory's pinned requirements and the package itself,
# editable; with the argument "tests", also what tests alone need.  Idempotent: a second
# run with nothing changed only compares stamps.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
venv=$root/.venv
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
	echo "lab-env: Python 3.11 or newer is needed, $python is not (set PYTHON)" >&2
	exit 3
fi

# stamp FILE...: changes when what is installed from them would.  Where it is belongs to
# it: a virtual environment cannot be moved.
stamp() {
	{
		echo "$root"
		"$python" -c 'import sys; print(sys.version)'
		cat "$@" "$0"
	} | sha256sum
}
lab_stamp=$(stamp "$root/lab/requirements.txt" "$root/lab/pyproject.toml")
tests=
if [ "${1:-}" = tests ]; then
	tests=$root/tests/requirements.txt
	tests_stamp=$(stamp "$tests")
fi

has_lab() { [ "$(cat "$venv/lab-env.stamp" 2>/dev/null)" = "$lab_stamp" ]; }
has_tests() { [ -z "$tests" ] || [ "$(cat "$venv/tests.stamp" 2>/dev/null)" = "$tests_stamp" ]; }

if has_lab && has_tests; then
	exit 0
fi

# Two at once (make -j, two terminals) take turns.
mkdir -p "$root/target"
exec 9>"$root/target/lab-env.lock"
flock 9

pip="$venv/bin/python -m pip --disable-pip-version-check --quiet"
pinned="$pip install --require-hashes --only-binary :all: -r $root/lab/requirements.txt"
if ! has_lab; then
	echo "lab-env: installing into .venv" >&2
	rm -rf "$venv"
	if ! "$python" -m venv "$venv"; then
		echo "lab-env: no virtual environment; on Debian: apt-get install python3-venv" >&2
		exit 3
	fi
	$pinned
	# The build tools are among the pinned requirements: nothing unpinned is fetched.
	$pip install --no-deps --no-build-isolation --editable "$root/lab"
	echo "$lab_stamp" >"$venv/lab-env.stamp"
fi
if ! has_tests; then
	echo "lab-env: installing what tests need into .venv" >&2
	# Both lists at once: pip says so where they do not agree.
	$pinned -r "$tests"
	echo "$tests_stamp" >"$venv/tests.stamp"
fi
