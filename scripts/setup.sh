#!/bin/sh
# Makes the virtual environment .venv, in two steps: `setup.sh bus` installs what it
# takes to run a bus, to use it and to compile it; `setup.sh tools` adds all development
# tools. `make` runs them when pyproject.toml has changed. The package is installed
# editable and plain.
#
# It needs Python 3.11 or newer and asks for nothing else where it can help it;
# what only root can install it names with the command, or runs as root.
set -eu
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

say() { printf '%s\n' "$*" >&2; }

find_python() {
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
        then
            command -v "$candidate"
            return
        fi
    done
    say "Python 3.11 or newer is needed: sudo apt-get install -y python3 python3-venv"
    return 1
}

# Debian keeps the part of Python that puts pip into a new environment in a
# package of its own, so there are several ways to the same end.
make_environment() {
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        "$python" -m venv .venv
    elif "$python" -c 'import virtualenv' 2>/dev/null; then
        "$python" -m virtualenv --quiet .venv
    elif "$python" -c 'import pip, venv' 2>/dev/null; then
        "$python" -m venv --without-pip .venv
        "$python" -m pip --quiet --python .venv/bin/python install pip
    elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "Installing the Debian package python3-venv"
        apt-get update -qq && apt-get install -qq -y python3-venv >/dev/null
        "$python" -m venv .venv
    else
        say "Python cannot make environments here: sudo apt-get install -y python3-venv"
        return 1
    fi
}

pip="nice .venv/bin/python -m pip --quiet"

# The first pip of an environment may be too old to know dependency groups.
install_bus() {
    if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
        python=$(find_python)
        say "Making .venv with $("$python" --version)"
        rm -rf .venv
        make_environment
    fi
    say "Installing twinbus into .venv"
    setuptools=$(sed -n 's/^build = .*"\(setuptools==[^"]*\)".*/\1/p' pyproject.toml)
    $pip install --upgrade 'pip>=25.1' "$setuptools"
    # Compiled modules are made by `make compiled`, next to the editable sources.
    TWINBUS_PURE=1 $pip install --no-build-isolation \
        --group build --group client --editable .
}

# Qpid Proton is published as source only; it is built beside the other downloads.
install_tools() {
    say "Installing the development tools into .venv"
    proton=
    # In the background Ctrl-C does not reach a process by itself.
    trap '[ -z "$proton" ] || kill "$proton" 2>/dev/null || true' EXIT
    trap 'exit 1' INT TERM
    if command -v cc >/dev/null; then
        mkdir -p build
        $pip wheel --no-deps --group interop --wheel-dir build/interop \
            >build/interop.log 2>&1 &
        proton=$!
    else
        say "No C compiler: plain Python, and tests with python-qpid-proton are skipped" \
            "(sudo apt-get install -y gcc python3-dev)"
    fi
    $pip install --group dev
    if [ -n "$proton" ] && ! { wait "$proton" && proton= &&
        $pip install --group interop --find-links build/interop; }; then
        say "python-qpid-proton was not built, tests that need it are skipped:" \
            "see build/interop.log"
    fi
}

case ${1:-} in
bus) install_bus ;;
tools) install_tools ;;
*)
    say "usage: scripts/setup.sh bus|tools"
    exit 2
    ;;
esac
