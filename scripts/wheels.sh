#!/bin/sh
# Makes the wheels of a release in dist/: compiled ones for each Python, as the section
# [tool.cibuildwheel] of pyproject.toml says, and a pure one for everybody else.
#
# Compiled wheels for any Linux are built in containers with an old glibc. Where no engine
# runs, it says so and builds one for each Python that it finds (PYTHONS: which), and
# names it after the oldest glibc that it can run with.
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

# Version and program of each Python that wheels are for, one for each version.
found_pythons() {
    for program in "$python" ${PYTHONS:-python3.11 python3.12 python3.13 python3.14}; do
        "$program" -c 'import ensurepip, sys, venv
if sys.version_info >= (3, 11):
    print(*sys.version_info[:2], sep=".", end=f" {sys.argv[1]}\n")' \
            "$program" 2>/dev/null || continue
    done | sort -u -k 1,1
}

# The wheel for the Python $1, which is the program $2: built, named and tried.
build_here() {
    own=$tools-$1
    if ! [ -x "$own/bin/mypyc" ]; then
        "$2" -m venv --clear "$own"
        "$own/bin/python" -m pip --quiet install --upgrade 'pip>=25.1'
        "$own/bin/python" -m pip --quiet install --group build
    fi
    say "building for Python $1 on this machine"
    (cd "$copy" && "$root/$own/bin/python" -m pip --quiet wheel \
        --no-build-isolation --no-deps --wheel-dir "../$1" .)
    wheel=$(ls "$work/$1"/*.whl)
    case $wheel in
    *-none-any.whl)
        say "nothing could be compiled for Python $1: gcc and its Python.h are needed"
        return
        ;;
    esac
    PATH="$root/$tools/bin:$PATH" "$tools/bin/auditwheel" repair \
        --wheel-dir "$work/named-$1" "$wheel"
    "$2" -m venv "$work/try-$1"
    "$work/try-$1/bin/python" -m pip --quiet install "$work/named-$1"/*.whl
    "$work/try-$1/bin/twinbus" --version | grep '(compiled)' >&2
    mv "$work/named-$1"/*.whl "$dist"
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
    say "no container engine runs (docker, podman): wheels for the Pythons found here"
    found_pythons >"$work/pythons"
    while read -r version program; do
        build_here "$version" "$program" </dev/null
    done <"$work/pythons"
fi
rm -rf "$copy/build"
(cd "$copy" && TWINBUS_PURE=1 "$root/$tools/bin/python" -m pip --quiet wheel \
    --no-build-isolation --no-deps --wheel-dir ../pure .)
mv "$work"/pure/*.whl "$dist"
ls -1 "$dist"/*.whl
