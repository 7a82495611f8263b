#!/bin/sh
# The newcomer's first minutes: a fresh clone, an empty home, `make run`, and then the
# README's own code, as printed.
#
# The port is a free one, so that it can run beside another bus; 5672 in the README's
# code is replaced by it. Takes minutes: everything is installed and compiled anew.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
patience_seconds=${NEWCOMER_SECONDS:-900}

work=$(mktemp -d)
server=
finish() {
    if [ -n "$server" ]; then
        kill -TERM "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

fail() {
    printf 'newcomer: %s\n' "$1" >&2
    cat "$work/output" "$work/errors" >&2
    exit 1
}

# Blocks of one language from the README, without those marked as not run.
blocks() {
    awk -v fence="\`\`\`$1" '
        $0 == fence && !skip { inside = 1; next }
        /^```/ { inside = 0; skip = 0 }
        /^<!-- not run: / { skip = 1 }
        inside { print }' README.md
}

git clone --quiet "$source" "$work/twinbus"
mkdir "$work/home"
cd "$work/twinbus"
unset MAKEFLAGS MFLAGS MAKELEVEL PYTHONPATH VIRTUAL_ENV
export HOME="$work/home"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

# Told to end, make tells the server it runs, and waits for it.
make run ARGS="--port $port --http-port 0 --tls-port 0" >"$work/output" 2>"$work/errors" &
server=$!
waited=0
until grep -qx ready "$work/output"; do
    kill -0 "$server" 2>/dev/null || fail "make run has ended"
    [ "$waited" -lt "$patience_seconds" ] || fail "not ready after $waited seconds"
    sleep 1
    waited=$((waited + 1))
done

blocks python | sed "s/localhost:5672/localhost:$port/" >"$work/hello.py"
[ -s "$work/hello.py" ] || fail "the README has no code"
said=$(.venv/bin/python "$work/hello.py") || fail "the README's code failed"
promised=$(sed -n 's/^ *print(.*)  # //p' "$work/hello.py")
[ "$said" = "$promised" ] || fail "the README's code printed: $said"
printf 'newcomer: ready after %s seconds, the README works as printed\n' "$waited"
