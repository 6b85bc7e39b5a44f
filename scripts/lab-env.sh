#!/bin/sh
# Create .venv with the laboratory's pinned requirements and the package itself,
# editable.  Idempotent: a second run with nothing changed only compares a stamp.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
venv=$root/.venv
stamp=$venv/lab-env.stamp
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
	echo "lab-env: Python 3.11 or newer is needed, $python is not (set PYTHON)" >&2
	exit 3
fi

# Where it is belongs to it: a virtual environment cannot be moved.
wanted=$(
	{
		echo "$root"
		"$python" -c 'import sys; print(sys.version)'
		cat "$root/lab/requirements.txt" "$root/lab/pyproject.toml" "$0"
	} | sha256sum
)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
	exit 0
fi

# Two at once (make -j, two terminals) take turns.
mkdir -p "$root/target"
exec 9>"$root/target/lab-env.lock"
flock 9
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
	exit 0
fi

echo "lab-env: installing into .venv" >&2
rm -rf "$venv"
if ! "$python" -m venv "$venv"; then
	echo "lab-env: no virtual environment; on Debian: apt-get install python3-venv" >&2
	exit 3
fi
pip="$venv/bin/python -m pip --disable-pip-version-check --quiet"
$pip install --require-hashes --only-binary :all: -r "$root/lab/requirements.txt"
# The build tools are among the pinned requirements: nothing unpinned is fetched.
$pip install --no-deps --no-build-isolation --editable "$root/lab"
echo "$wanted" >"$stamp"
