#!/bin/sh
# Known faults, licences and origins of the libraries that we build with: cargo-deny by deny.toml, and pip-audit.
# Both are installed below target/tools. Exit code 1: something was found. 3: a database was out of reach, so that
# nobody looked; the line says which.
set -u
cd "$(dirname "$0")/.." || exit

cargo_deny=0.20.2
tools=target/tools
status=0

# worse CODE: a finding counts more than a database that was out of reach.
worse() { [ "$status" = 1 ] || status=$1; }

if [ "$("$tools/bin/cargo-deny" --version 2>/dev/null)" != "cargo-deny $cargo_deny" ]; then
	echo "audit: installing cargo-deny $cargo_deny: some minutes" >&2
	cargo install --quiet --locked --root "$tools" "cargo-deny@$cargo_deny" || exit 3
fi
"$tools/bin/cargo-deny" --log-level error --locked check licenses bans sources || worse 1
if ! "$tools/bin/cargo-deny" --log-level error --locked fetch db 2>"$tools/advisories.log"; then
	echo "audit: nobody looked at advisories of Rust: their database is out of reach ($tools/advisories.log)" >&2
	worse 3
else
	"$tools/bin/cargo-deny" --log-level error --locked --offline check advisories || worse 1
fi

pip_audit=$tools/pip-audit
if ! cmp -s scripts/pip-audit.txt "$pip_audit/installed.txt"; then
	rm -rf "$pip_audit"
	python3 -m venv "$pip_audit" || exit 3
	"$pip_audit/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
		-r scripts/pip-audit.txt || exit 3
	cp scripts/pip-audit.txt "$pip_audit/installed.txt"
fi
for list in lab/requirements.txt tests/requirements.txt scripts/pip-audit.txt; do
	log=$tools/$(echo "$list" | tr / -).log
	# Without --strict it passes where it could not ask.
	if "$pip_audit/bin/pip-audit" --strict --disable-pip --require-hashes --progress-spinner off -r "$list" >"$log" 2>&1; then
		echo "audit: $list: no known faults"
	elif grep -q '^Found' "$log"; then
		cat "$log"
		worse 1
	else
		echo "audit: nobody looked at $list: $(tail -n 1 "$log")" >&2
		worse 3
	fi
done
exit "$status"
