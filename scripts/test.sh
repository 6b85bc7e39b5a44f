#!/bin/sh
# All tests, each part with its own report; the last line sums them up. `make test` calls this after
# installing and building. Most guests run only if something that they depend on has changed. With --all they run
# in any case, with --quick none runs.
set -u
cd "$(dirname "$0")/.." || exit

quick='' all='' asked_for_all=''
case "${1:-}" in
--quick) quick=1 ;;
--all) all=1 asked_for_all=1 ;;
"") ! scripts/guests-changed.sh || all=1 ;;
*) echo "usage: scripts/test.sh [--quick | --all]" >&2; exit 2 ;;
esac

log=target/test
mkdir -p "$log"
rm -f "$log"/*.group
# A part that takes longer hangs: it is ended. Before that pytest names the test and where it stands.
limit_s=2400
passed=0 failed=0 skipped=0 broken=

# run NAME COMMAND...: into its log.
run() {
	name=$1
	shift
	echo "$*" >"$log/$name.command"
	rm -f "$log/$name.status"
	# A shell's background job ignores Ctrl-C, and one of nohup a hang-up. The programs under test must not inherit that.
	# `timeout` leads a process group, so that all of a part can be ended.
	env --default-signal=INT,QUIT,HUP timeout --kill-after=10 $limit_s "$@" >"$log/$name.log" 2>&1 &
	echo $! >"$log/$name.group"
	wait $!
	status=$?
	rm -f "$log/$name.group"
	[ $status != 124 ] || echo "ended: it took longer than $limit_s s" >>"$log/$name.log"
	echo $status >"$log/$name.status"
}

# end_all: what runs.
end_all() {
	for group in "$log"/*.group; do
		[ ! -e "$group" ] || kill -INT -- "-$(cat "$group")"
	done
	exit 130
}
trap end_all INT TERM

# begin NAME COMMAND...: in the background.
begin() {
	run "$@" &
	echo $! >"$log/$1.pid"
}

# report NAME: shows what it printed, and counts what its runner reports.
report() {
	printf '\n== %s: %s\n' "$1" "$(cat "$log/$1.command")"
	cat "$log/$1.log"
	counts=$(scripts/count-tests.py "$log/$1.log")
	name=$1
	# shellcheck disable=SC2086 # three numbers
	set -- $counts
	passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
	if [ "$(cat "$log/$name.status")" != 0 ]; then
		broken="$broken $name"
		[ "$2" -gt 0 ] || failed=$((failed + 1))
	fi
}

# end NAME: waits for what was begun.
end() {
	wait "$(cat "$log/$1.pid")"
	report "$1"
}

# part NAME COMMAND...: one after the other.
part() {
	begin "$@"
	end "$1"
}

# The compiler seldom keeps both cores busy, and the core's own tests never do. The profile of `make
# build`: what others wrote is built once.
rust="cargo test --release --locked --workspace --quiet"
begin rust-compile sh -c "$rust --no-run"
# It computes for as long as all of them and takes what they leave: beside it as an equal they took three times as long.
[ -z "$all" ] || begin fast-guests nice -n 19 .venv/bin/lab vm build --kernel uml
part core-compile make -s core-compile
part core make -s core-test
part fuzz make -s core-fuzz-smoke
end rust-compile
# The command's tests load imtcp on this kernel; leave it as it was.
loaded=
[ ! -e /sys/fs/bpf/imtcp ] || loaded=1
# shellcheck disable=SC2086 # words of a command
part rust $rust --no-fail-fast
[ -z "$all" ] || end fast-guests
[ -n "$loaded" ] || target/release/imtcp down >/dev/null 2>&1 || true
# conftest.py says which tests run beside each other: a guest uses one processor, and tests without one mostly wait.
chosen=
if [ -n "$quick" ]; then
	chosen="-m not(vm)"
elif [ -z "$all" ]; then
	chosen="--guests few"
	echo "== left out: guests, since nothing changed for them after they passed with $(cut -c1-7 .ci/tested)" \
		"(\`make test-all\` runs all)"
elif [ -z "$asked_for_all" ]; then
	# It builds everything twice, which is for the runs that have time.
	chosen="--deselect tests/test_same_bytes.py"
	echo "== left out: the test of equal builds, tests/test_same_bytes.py (\`make test-all\` runs it)"
fi
# shellcheck disable=SC2086 # words
part pytest .venv/bin/pytest -q -rfEs -o faulthandler_timeout=900 --durations=25 -n 3 --dist loadgroup --no-loadscope-reorder \
	--junitxml="$log/pytest.xml" $chosen lab/tests tests

printf '\n== all parts\n'
[ "$skipped" = 0 ] || grep -hE '^SKIPPED|^skipped:' "$log"/*.log
for name in $broken; do
	printf 'failed in %s (%s):\n' "$name" "$log/$name.log"
	# Failures come last, where a reader of a long log looks first.
	sed -n '/^---- .* ----$/,/^note: run with\|^failures:/p; /^FAILED \|^ERROR /p' "$log/$name.log" | grep . ||
		tail -n 5 "$log/$name.log"
done
printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ] && [ -z "$broken" ]
