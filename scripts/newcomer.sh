#!/bin/sh
# The newcomer's first minutes: a fresh clone, an empty home, `make run`, and then the
# README's own code, as printed. The first bus is there within a minute, as plain
# Python; the second one is compiled.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
. "$source/scripts/first_minutes.sh"
compilation_seconds=900

git clone --quiet "$source" "$work/twinbus"
cd "$work/twinbus"

start_bus "${NEWCOMER_SECONDS:-60}" make run
ready_seconds=$waited
try_readme .venv/bin/python README.md

if command -v cc >/dev/null; then
    compiled() { ls src/twinbus/_native/????????????????/twinbus__mypyc.* >/dev/null 2>&1; }
    while ! compiled; do
        [ "$waited" -lt "$compilation_seconds" ] || fail "not compiled after $waited seconds"
        sleep 1
        waited=$((waited + 1))
    done
    compiled_seconds=$waited
    stop_bus
    start_bus 30 make run
    [ "$(form_of_bus)" = compiled ] || fail "the second start is $(form_of_bus)"
    try_readme .venv/bin/python README.md
    printf 'newcomer: compiled after %s seconds, and used by the next start\n' "$compiled_seconds"
fi
printf 'newcomer: ready after %s seconds, the README works as printed\n' "$ready_seconds"
