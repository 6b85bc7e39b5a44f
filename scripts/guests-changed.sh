#!/bin/sh
# Has anything changed that the virtual machine's tests depend on, since they all passed with the commit
# that .ci/tested names? Exits with 0 if so, and where git cannot tell. They take most of an hour of two
# processors, and a guest in virtual time does the same with the same programs.
cd "$(dirname "$0")/.." || exit 0
read -r tested <.ci/tested || exit 0
! git diff --quiet "$tested" -- \
	core bpf proftpd lab/guest lab/load lab/src lab/tests lab/requirements.txt crates/imtcp-bpf crates/imtcp-load \
	tests/guest tests/guests.py tests/test_connections.py tests/test_modes.py tests/test_nocc.py \
	tests/test_parameters.py tests/test_rates.py tests/test_token_bucket.py 2>/dev/null
