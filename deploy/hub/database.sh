#!/bin/sh
# Starts a PostgreSQL of its own, with the programs of Debian's package `postgresql`, for a hub to be tried with.
# usage: database.sh DIRECTORY      it listens at DIRECTORY/socket alone; `database.sh --stop DIRECTORY` ends it
set -eu
stop=''
[ "${1:-}" = --stop ] && stop=1 && shift
[ $# = 1 ] || { echo "usage: database.sh [--stop] DIRECTORY" >&2 && exit 2; }
mkdir -p "$1"
directory=$(cd "$1" && pwd)
programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -n "$programs" ] || { echo "database.sh: PostgreSQL is not installed; sudo apt-get install postgresql" >&2 && exit 1; }

# PostgreSQL refuses to run as root: there it runs as the user of Debian's package.
run() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=postgres --regid=postgres --clear-groups -- "$@"
    else
        "$@"
    fi
}
[ "$(id -u)" != 0 ] || chown postgres "$directory"

if [ -n "$stop" ]; then
    run "$programs/pg_ctl" stop --silent --wait --pgdata "$directory/data" --mode fast
    exit
fi
if [ ! -e "$directory/data/PG_VERSION" ]; then
    # Whoever reaches the socket is the owner: its directory is closed to others.
    run "$programs/initdb" --pgdata "$directory/data" --username conceptwatch --auth trust --encoding UTF8 --locale C.UTF-8 >/dev/null
fi
run mkdir -p -m 700 "$directory/socket"
run "$programs/pg_ctl" start --silent --wait --pgdata "$directory/data" --log "$directory/postgres.log" \
    --options "-c listen_addresses='' -c unix_socket_directories='$directory/socket'"
run "$programs/createdb" --host "$directory/socket" --username conceptwatch conceptwatch 2>/dev/null || true
echo "postgres:///conceptwatch?user=conceptwatch&host=$directory/socket" >"$directory/url"
echo "PostgreSQL listens: $(cat "$directory/url")"
