#!/bin/sh
# Checks the newest wheel in dist/, or the one that is named: where there is no C compiler
# it installs and runs compiled, the README's code works with it, and a message is sent
# and seen by hand, all within a minute. A pure wheel can be built as well, and has nothing
# compiled in it.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
. "$source/scripts/first_minutes.sh"
wheel=$(realpath "${1:-$(ls -t "$source"/dist/*.whl | head -n 1)}")

begun=$(date +%s)
"$source/.venv/bin/python" -m venv "$work/venv"
path=$PATH
# No programs at all, and so no compiler; the rest is called by its full name.
export PATH="$work/nothing"
"$work/venv/bin/python" -m pip --quiet --disable-pip-version-check install \
    --only-binary :all: "$wheel[pairing]"
said=$("$work/venv/bin/twinbus" --version)
PATH=$path
case $said in
*"(compiled)") ;;
*) fail "the installed wheel is not compiled: $said" ;;
esac

cd "$work"
start_bus 30 env PATH="$work/nothing" "$work/venv/bin/twinbus" serve \
    --data ./data --config "$source/examples/bus.toml"
[ "$(form_of_bus)" = compiled ] || fail "the bus is $(form_of_bus)"
try_readme "$work/venv/bin/python" "$source/README.md"
"$work/venv/bin/twinbus" send orders 'a parcel' >/dev/null
"$work/venv/bin/twinbus" peek orders | grep -q 'a parcel' || fail "twinbus peek shows nothing"
seconds=$(($(date +%s) - begun))
[ "$seconds" -le "${WHEEL_SECONDS:-60}" ] || fail "install, serve and peek took $seconds seconds"

stop_bus

# As the container starts it, in place of the vendor's emulator.
export EMULATOR_CONFIG="$source/examples/emulator/Config.json"
start_bus 30 env PATH="$work/venv/bin:$path" TWINBUS_DATA="$work/emulator" \
    "$source/deploy/entrypoint.sh"
PATH="$work/venv/bin:$path" "$source/deploy/entrypoint.sh" healthy ||
    fail "the health check of the container fails"
stop_bus

git clone --quiet "$source" "$work/twinbus"
TWINBUS_PURE=1 "$source/.venv/bin/python" -m pip --quiet wheel --no-build-isolation \
    --no-deps --wheel-dir "$work/pure" "$work/twinbus"
pure=$(ls "$work/pure"/*-py3-none-any.whl) || fail "the pure wheel is not for any platform"
! python3 -m zipfile --list "$pure" | grep -q _native || fail "the pure wheel is not pure"
printf 'wheel_check: %s installs and runs compiled without a compiler, in %s seconds\n' \
    "$(basename "$wheel")" "$seconds"
