#!/bin/sh
# Names the programs of the system that tests need and this machine lacks, in one line with the command that installs
# them; nothing where none is missing. With --packages: only their packages in Debian and Ubuntu.
set -eu
names='' debian='' fedora='' brew=''

needs() { # name, packages in Debian, Fedora and Homebrew, and programs any one of which will do
    name=$1 in_debian=$2 in_fedora=$3 in_brew=$4
    shift 4
    for program in "$@"; do
        command -v "$program" >/dev/null && return
    done
    names="$names${names:+, }$name"
    debian="$debian $in_debian" fedora="$fedora $in_fedora" brew="$brew $in_brew"
}

[ -n "${CONCEPTWATCH_CHROMIUM:-}" ] ||
    needs Chromium chromium chromium '--cask chromium' chromium chromium-browser google-chrome
[ -n "${CONCEPTWATCH_FIREFOX:-}" ] ||
    needs Firefox firefox-esr firefox '--cask firefox' firefox-esr firefox
needs Node.js 'nodejs npm' 'nodejs npm' node npm
needs Prometheus prometheus prometheus prometheus promtool
needs Alertmanager prometheus-alertmanager prometheus-alertmanager alertmanager prometheus-alertmanager alertmanager
# Debian keeps the programs of a server out of the search path.
# shellcheck disable=SC2046 # each is a word
needs HAProxy haproxy haproxy haproxy haproxy /usr/sbin/haproxy
needs faketime faketime libfaketime libfaketime faketime
needs systemd-analyze systemd systemd systemd systemd-analyze
needs iproute2 iproute2 iproute iproute2mac ip /usr/sbin/ip
needs PostgreSQL postgresql postgresql-server postgresql initdb $(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null)

[ -n "$names" ] || exit 0
if [ "${1:-}" = --packages ]; then
    echo "$debian"
    exit 0
fi
install='install them'
if command -v apt-get >/dev/null; then
    install="install them with: sudo apt-get install$debian"
elif command -v dnf >/dev/null; then
    install="install them with: sudo dnf install$fedora"
elif command -v brew >/dev/null; then
    install="install them with: brew install$brew"
fi
echo "Not tested, because this machine lacks $names; $install"
