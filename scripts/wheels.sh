#!/bin/sh
# Makes the wheels of a release in dist/: compiled ones for each Python, as the section
# [tool.cibuildwheel] of pyproject.toml says, and a pure one for everybody else.
#
# Compiled wheels for any Linux are built in containers with an old glibc. Where no engine
# runs, it says so and builds one for this Python and for machines like this one, with the
# oldest glibc that it can run with in its name.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
tools=build/wheel-tools
python=${PYTHON:-.venv/bin/python}
dist=${DIST:-dist}

say() { printf 'wheels: %s\n' "$*" >&2; }

# The engine that answers, if one does.
engine() {
    for name in docker podman; do
        if command -v "$name" >/dev/null && "$name" info >/dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
}

mkdir -p "$dist" build
work=$(mktemp -d "$root/build/wheels.XXXXXX")
trap 'rm -rf "$work"' EXIT
if ! [ -x "$tools/bin/cibuildwheel" ]; then
    "$python" -m venv "$tools"
    "$tools/bin/python" -m pip --quiet install --upgrade 'pip>=25.1'
    "$tools/bin/python" -m pip --quiet install --group wheels --group build
fi
# From a copy: the build leaves files beside the sources.
copy=$work/source
mkdir "$copy"
cp -R pyproject.toml setup.py MANIFEST.in README.md LICENSE src "$copy"
rm -rf "$copy/src/twinbus/_native" "$copy"/src/*.egg-info
mkdir "$copy/scripts" && cp scripts/native_library.py "$copy/scripts"
# Object files of `make compiled`, found by the digest of all they are made from.
if [ -d build/mypyc ]; then
    mkdir "$copy/build" && cp -R build/mypyc "$copy/build"
fi

engine=$(engine)
if [ -n "$engine" ]; then
    CIBW_CONTAINER_ENGINE=$engine "$tools/bin/cibuildwheel" --platform linux \
        --output-dir "$dist" "$copy"
else
    say "no container engine runs (docker, podman): no wheels for any Linux."
    say "building one for $("$python" --version) on this machine"
    (cd "$copy" && "$root/$tools/bin/python" -m pip --quiet wheel \
        --no-build-isolation --no-deps --wheel-dir ../local .)
    wheel=$(ls "$work"/local/*.whl)
    case $wheel in
    *-none-any.whl)
        say "nothing could be compiled on this machine: gcc and Python.h are needed"
        ;;
    *)
        PATH="$root/$tools/bin:$PATH" "$tools/bin/auditwheel" repair \
            --wheel-dir "$dist" "$wheel"
        ;;
    esac
fi
rm -rf "$copy/build"
(cd "$copy" && TWINBUS_PURE=1 "$root/$tools/bin/python" -m pip --quiet wheel \
    --no-build-isolation --no-deps --wheel-dir ../pure .)
mv "$work"/pure/*.whl "$dist"
ls -1 "$dist"/*.whl
