#!/bin/sh
# Adds Spark to the virtual environment: PySpark, Arrow and what draws plots, some 500 MB.
# `setup_spark.sh oldest` adds the oldest PySpark that is supported beside it, under
# build/, for tests. `make` runs this for what needs Spark; a bus does without.
#
# Java is the system's: where it is missing the command is named, or run as root.
set -eu
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

java_needed=17

say() { printf '%s\n' "$*" >&2; }

has_java() {
    major=$("${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 |
        sed -n 's/.* version "\([0-9]*\).*/\1/p')
    [ "${major:-0}" -ge "$java_needed" ]
}

if ! has_java; then
    package="default-jre-headless"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "Installing the Debian package $package"
        apt-get update -qq && apt-get install -qq -y "$package" >/dev/null
    fi
    if ! has_java; then
        say "Spark needs Java $java_needed or newer: sudo apt-get install -y $package"
        exit 1
    fi
fi

# Spark's workers import PySpark from a zip, and each of them compiles it anew, for half
# a second or more. A folder of that name gives them the installed code, compiled once.
unpack() {
    zip="$1/pyspark/python/lib/pyspark.zip"
    if [ -f "$zip" ]; then
        rm "$zip"
        mkdir "$zip"
        ln -s ../../.. "$zip/pyspark"
    fi
}

pip="nice .venv/bin/python -m pip --quiet"
oldest=$(sed -n 's/^spark-oldest = \["pyspark==\(.*\)"\]$/\1/p' pyproject.toml)

# Both at once: each is loaded and packed for a while. In the background Ctrl-C does not
# reach a process by itself.
draft="build/draft-$$"
beside=
finish() {
    [ -z "$beside" ] || kill "$beside" 2>/dev/null || true
    rm -rf "$draft"
}
trap finish EXIT
trap 'exit 1' INT TERM

if [ "${1:-}" = oldest ] && [ ! -d "build/pyspark-$oldest" ]; then
    say "Installing PySpark $oldest into build/pyspark-$oldest"
    mkdir -p build
    $pip install --group spark-oldest --target "$draft" &
    beside=$!
fi
say "Installing PySpark into .venv"
$pip install --group spark
if [ -n "$beside" ]; then
    wait "$beside"
    beside=
    mv "$draft" "build/pyspark-$oldest"
fi
for installed in .venv/lib/python3*/site-packages "build/pyspark-$oldest"; do
    # The one under build/ may be missing.
    unpack "$installed"
done
