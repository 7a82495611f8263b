#!/bin/sh
# Starts the bus with the flags given (`make run`), and at once: where the hot modules
# are not compiled for the sources as they are, it starts as plain Python, and they
# are compiled beside it for the next start.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

form=$(.venv/bin/python -c 'from twinbus import compilation; print(compilation.describe())')
case $form in
compiled | *"TWINBUS_PURE is set") ;;
*)
    obstacle=$(.venv/bin/python setup.py --quiet native --check)
    if [ -n "$obstacle" ]; then
        say "$obstacle"
    else
        say "Starting as plain Python; compiling beside it for the next start" \
            "(output in build/native.log)"
        # The bus takes over this process, and its id.
        .venv/bin/python scripts/compile_beside.py $$
    fi
    ;;
esac
exec .venv/bin/twinbus serve "$@"
