#!/bin/sh
# What a container of twinbus runs: `twinbus` with the arguments given, or `healthy`, the
# health check.
#
# Where the vendor's emulator finds its Config.json, this finds it too: then the bus has
# its entities, its fixed key and its ports, and code and compose files written for the
# emulator need no change. Its variables for a database (SQL_SERVER, MSSQL_SA_PASSWORD,
# SQL_WAIT_INTERVAL) and ACCEPT_EULA have no meaning here. What TWINBUS_... says counts.
set -eu

config=${EMULATOR_CONFIG:-/ServiceBus_Emulator/ConfigFiles/Config.json}
if [ -z "${TWINBUS_CONFIG:-}" ] && [ -f "$config" ]; then
    export TWINBUS_CONFIG="$config"
    export TWINBUS_KEY="${TWINBUS_KEY:-SAS_KEY_VALUE}"
    export TWINBUS_HTTP_PORT="${TWINBUS_HTTP_PORT:-${EMULATOR_HTTP_PORT:-5300}}"
fi

case ${1:-serve} in
healthy)
    # The port of AMQP speaks HTTP as well.
    exec python3 -c 'import os, urllib.request
port = os.environ.get("TWINBUS_PORT", "5672")
urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=4)'
    ;;
esac
[ $# -gt 0 ] || set -- serve
exec twinbus "$@"
