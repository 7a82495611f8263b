# For scripts that try a bus as a newcomer would; they source this file. It makes the
# folder $work, with an empty home in it, and removes it at the end, with the bus.
#
# The port is a free one, so that it can run beside another bus; 5672 in the README's
# code is replaced by it.

work=$(mktemp -d)
mkdir "$work/home"
unset MAKEFLAGS MFLAGS MAKELEVEL PYTHONPATH VIRTUAL_ENV TWINBUS_PURE
export HOME="$work/home"
server=
: >"$work/output"
: >"$work/errors"

finish() {
    stop_bus
    # A compilation beside the bus ends a moment after it, and may still write.
    rm -rf "$work" 2>/dev/null || { sleep 2 && rm -rf "$work"; }
}
trap finish EXIT
trap 'exit 1' INT TERM

fail() {
    printf '%s: %s\n' "$(basename "$0" .sh)" "$1" >&2
    cat "$work/output" "$work/errors" >&2
    exit 1
}

# Starts the bus with the command given, and waits: at most $1 seconds to `ready`, which
# are $waited afterwards.
start_bus() {
    patience_seconds=$1
    shift
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    export TWINBUS_PORT="$port" TWINBUS_HTTP_PORT=0 TWINBUS_TLS_PORT=0
    : >"$work/output"
    "$@" >"$work/output" 2>"$work/errors" &
    server=$!
    waited=0
    until grep -qx ready "$work/output"; do
        kill -0 "$server" 2>/dev/null || fail "the bus has ended"
        [ "$waited" -lt "$patience_seconds" ] || fail "not ready after $waited seconds"
        sleep 1
        waited=$((waited + 1))
    done
}

# Told to end, make tells the server it runs, and waits for it.
stop_bus() {
    if [ -n "$server" ]; then
        kill -TERM "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
        server=
    fi
}

# Which form the running bus has: `compiled`, or `plain` with a reason.
form_of_bus() {
    sed -n 's/^twinbus [^ ]* (\([^)]*\)).*/\1/p' "$work/output"
}

# Blocks of one language from the README, without those marked as not run.
blocks() {
    awk -v fence="\`\`\`$1" '
        $0 == fence && !skip { inside = 1; next }
        /^```/ { inside = 0; skip = 0 }
        /^<!-- not run: / { skip = 1 }
        inside { print }' "$2"
}

# Runs the code of the README $2 with the Python $1 against the bus, and compares what
# it prints with what the README says that it prints.
try_readme() {
    blocks python "$2" | sed "s/localhost:5672/localhost:$port/" >"$work/hello.py"
    [ -s "$work/hello.py" ] || fail "the README has no code"
    said=$("$1" "$work/hello.py") || fail "the README's code failed"
    promised=$(sed -n 's/^ *print(.*)  # //p' "$work/hello.py")
    [ "$said" = "$promised" ] || fail "the README's code printed: $said"
}
