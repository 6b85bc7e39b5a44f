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
# A part that takes longer hangs: it is ended, and its log names the test. None takes half of it.
limit_s=1800
pytest=".venv/bin/pytest -q -rfEs --durations=10"
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

# end_all: what runs, and what waits.
end_all() {
	: >"$log/queue"
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

# next_queued: takes the first line of the queue; two lanes never the same.
next_queued() {
	(
		flock 9
		sed -n 1p "$log/queue"
		sed -i 1d "$log/queue"
	) 9>"$log/queue.lock"
}

# lane: runs pytest on what the queue has next, "NAME ARGUMENT...", until it is empty.
lane() {
	while next=$(next_queued) && [ -n "$next" ]; do
		# shellcheck disable=SC2086 # words of a command
		run "${next%% *}" $pytest ${next#* }
	done
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
if [ -n "$quick" ]; then
	# shellcheck disable=SC2086
	part lab $pytest -m "not vm" lab/tests
	# shellcheck disable=SC2086
	part e2e $pytest -m "not vm" tests
else
	# A guest uses one processor: two at a time, and the longest first. Tests without a guest mostly wait, so they
	# run beside them.
	figures=lab/tests/test_quick_figures.py
	# All of them: a part for each paper, so that both lanes have some.
	papers=
	[ "${IMTCP_TEST_FIGURES:-}" != all ] || papers="BG IM EN LP turn"
	guests="connections clean_machine nocc modes kernels marks parameters rates token_bucket"
	now=$guests without_guest='' left_out=''
	if [ -z "$all" ]; then
		# Each kernel, one figure and what judges the command's own words always run.
		now=kernels without_guest='-m not(vm)'
		left_out="what nothing changed for since it passed with $(cut -c1-7 .ci/tested): the other guests"
	elif [ -z "$asked_for_all" ]; then
		left_out='the test of equal builds (tests/test_same_bytes.py)'
	fi
	# It builds everything twice, which is for the runs that have time.
	[ -n "$all" ] && [ -z "$asked_for_all" ] || now="same_bytes $now"
	# shellcheck disable=SC2086 # words
	{
		echo "lab $without_guest --ignore=$figures lab/tests"
		if [ -n "$papers" ]; then
			printf '%s\n' $papers | sed "s|.*|figures-& $figures -k &|"
		else
			echo "figures $figures"
		fi
		printf '%s\n' $now | sed 's|.*|& tests/test_&.py|'
		# What asks a stock kernel; the kernel of the fast guests takes minutes to build.
		[ -n "$all" ] || printf '%s\n' nocc parameters | sed 's|.*|& tests/test_&.py -k 6.1|'
	} >"$log/queue"
	# shellcheck disable=SC2046,SC2086
	begin e2e $pytest $(printf ' --ignore=tests/test_%s.py' same_bytes $guests) tests
	queued=$(sed 's/ .*//' "$log/queue")
	# shellcheck disable=SC2086
	echo "== two at a time, most in the virtual machine; this takes a while:" $queued
	[ -z "$left_out" ] || echo "== left out: $left_out (\`make test-all\` runs all)"
	lane &
	lane &
	wait
	for name in e2e $queued; do report "$name"; done
fi

printf '\n== all parts\n'
[ "$skipped" = 0 ] || grep -hE '^SKIPPED|^skipped:' "$log"/*.log
for name in $broken; do
	printf 'failed in %s (%s):\n' "$name" "$log/$name.log"
	# What failed is named last, where a reader of a long log looks first.
	sed -n '/^---- .* ----$/,/^note: run with\|^failures:/p; /^FAILED \|^ERROR /p' "$log/$name.log" | grep . ||
		tail -n 5 "$log/$name.log"
done
printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ] && [ -z "$broken" ]
