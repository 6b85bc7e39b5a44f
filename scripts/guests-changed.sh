#!/bin/sh
# Has anything changed that the virtual machine's tests depend on, since they all passed with the commit
# that .ci/tested names? Exits with 0 if so, and where git cannot tell. They take most of an hour of two
# processors, and a guest in virtual time does the same with the same programs. The command's own programs
# (imtcp_ctl, imtcp_uncovered) steer no packet; test_kernels.py, which always runs, loads them on each kernel.
cd "$(dirname "$0")/.." || exit 0
read -r tested <.ci/tested || exit 0
! git diff --quiet "$tested" -- \
	core bpf ':!bpf/imtcp_ctl*' ':!bpf/imtcp_uncovered*' proftpd lab/guest lab/load lab/src lab/requirements.txt \
	lab/tests/test_ftp_runs.py lab/tests/test_measuring.py lab/tests/test_quick_figures.py \
	lab/tests/test_vm_determinism.py lab/tests/test_vm_run.py lab/tests/vm_guests.py tests/guest tests/guests.py tests/test_connections.py tests/test_modes.py tests/test_nocc.py \
	tests/test_parameters.py tests/test_rates.py tests/test_token_bucket.py 2>/dev/null
