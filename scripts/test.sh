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

# begin NAME COMMAND...: runs it in the background, into its log; $! is it.
begin() {
	name=$1
	shift
	echo "$*" >"$log/$name.command"
	rm -f "$log/$name.status"
	{
		# A shell's background job ignores Ctrl-C, and so would the programs under test.
		env --default-signal=INT,QUIT "$@" >"$log/$name.log" 2>&1
		echo $? >"$log/$name.status"
	} &
	echo $! >"$log/$name.pid"
}

# end NAME: waits for it, shows what it printed, and counts what its runner reports.
end() {
	wait "$(cat "$log/$1.pid")"
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

# part NAME COMMAND...: one after the other.
part() {
	begin "$@"
	end "$1"
}

# The compiler seldom keeps both cores busy, and the core's own tests never do. The profile of `make
# build`, and of `make demo`: what others wrote is built once.
rust="cargo test --release --locked --workspace --quiet"
rust_demo="cargo test --profile demo --locked -p imtcp --no-default-features --quiet --test left_out"
begin rust-compile sh -c "$rust --no-run && $rust_demo --no-run"
part core-compile make -s core-compile
part core make -s core-test
part fuzz make -s core-fuzz-smoke
end rust-compile
# The command's tests load imtcp on this kernel; leave it as it was.
loaded=
[ ! -e /sys/fs/bpf/imtcp ] || loaded=1
# shellcheck disable=SC2086 # words of a command
part rust $rust --no-fail-fast
# shellcheck disable=SC2086
part rust-demo $rust_demo
[ -n "$loaded" ] || target/release/imtcp down >/dev/null 2>&1 || true
# Two rows of Python tests share the cores, as a guest uses one: what connections do, and the rest one
# after the other.
if [ -n "$quick" ]; then
	part lab .venv/bin/pytest -q -rs -m "not vm" lab/tests
	part e2e .venv/bin/pytest -q -rs -m "not vm" tests
else
	echo "== connections, lab and e2e: in the virtual machine, side by side; this takes a while"
	tests="-q -rs --durations=10"
	first=$(printf 'tests/test_%s.py ' connections modes nocc)
	# shellcheck disable=SC2086 # words of a command
	begin connections .venv/bin/pytest $tests $first
	# shellcheck disable=SC2086
	begin lab .venv/bin/pytest $tests lab/tests
	wait $!
	# shellcheck disable=SC2046,SC2086
	begin e2e .venv/bin/pytest $tests $(printf ' --ignore=%s' $first) tests
	wait
	end lab
	end connections
	end e2e
fi

printf '\n== all parts\n'
[ "$skipped" = 0 ] || grep -hE '^SKIPPED|^skipped:' "$log"/*.log
[ -z "$broken" ] || printf 'failed in:%s (logs in %s)\n' "$broken" "$log"
printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ] && [ -z "$broken" ]
