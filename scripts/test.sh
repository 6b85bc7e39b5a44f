#!/bin/sh
# All tests, each part with its own report; the last line sums them up. `make test` calls this
# after installing and building. With --quick, nothing that needs the virtual machine.
set -u
cd "$(dirname "$0")/.." || exit

quick=
case "${1:-}" in
--quick) quick=1 ;;
"") ;;
*) echo "usage: scripts/test.sh [--quick]" >&2; exit 2 ;;
esac

log=target/test
mkdir -p "$log"
passed=0 failed=0 skipped=0 broken=

# part NAME COMMAND...: runs it, shows what it prints, counts what its runner reports.
part() {
	name=$1; shift
	printf '\n== %s: %s\n' "$name" "$*"
	status=0
	{ "$@" 2>&1; echo $? >"$log/$name.status"; } | tee "$log/$name.log"
	status=$(cat "$log/$name.status")
	counts=$(scripts/count-tests.py "$log/$name.log")
	# shellcheck disable=SC2086 # three numbers
	set -- $counts
	passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
	if [ "$status" != 0 ]; then
		broken="$broken $name"
		[ "$2" -gt 0 ] || failed=$((failed + 1))
	fi
}

part core-compile make -s core-compile
part core make -s core-test
part fuzz make -s core-fuzz-smoke
part rust cargo test --release --locked --workspace --quiet
if [ -n "$quick" ]; then
	part lab .venv/bin/pytest -q -rs -m "not vm" lab/tests tests
else
	part lab .venv/bin/pytest -q -rs lab/tests tests
fi

printf '\n== all parts\n'
[ "$skipped" = 0 ] || grep -hE '^SKIPPED|^skipped:' "$log"/*.log
[ -z "$broken" ] || printf 'failed in:%s (logs in %s)\n' "$broken" "$log"
printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ] && [ -z "$broken" ]
