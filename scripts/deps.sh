#!/bin/sh
# Installs what the tests need beside Go, on Debian and Ubuntu. Anywhere else it
# says what to install and fails.
#
#   scripts/deps.sh             install what is missing
#   scripts/deps.sh --postgres  only make sure that tests find a Postgres: local
#                               server binaries, or a Docker engine that has or
#                               can pull an image. Installs only as root.
set -eu
cd "$(dirname "$0")/.."

# One line a need: the package, then a command or a file that is there when it is
# installed. The race detector is what needs a C compiler.
needs='
postgresql   initdb
make         make
gcc          gcc
libc6-dev    /usr/include/stdlib.h
git          git
procps       ps
util-linux   flock
'

have() {
	[ "${1#/}" = "$1" ] || { [ -e "$1" ]; return; }
	command -v "$1" >/dev/null 2>&1 ||
		ls /usr/lib/postgresql/*/bin/"$1" /usr/pgsql-*/bin/"$1" /opt/homebrew/opt/postgresql*/bin/"$1" 2>/dev/null | grep -q .
}

missing() {
	echo "$needs" | while read -r package command; do
		if [ -n "$package" ] && ! have "$command"; then
			echo "$package"
		fi
	done
}

# engine_has_postgres: Docker answers, and has or can pull an image of Postgres.
engine_has_postgres() {
	command -v docker >/dev/null 2>&1 && timeout 10 docker info >/dev/null 2>&1 || return 1
	for image in ${TOOLD_TEST_POSTGRES_IMAGE:-} toold-test/postgres:local postgres:16-alpine; do
		if docker image inspect "$image" >/dev/null 2>&1; then
			return 0
		fi
	done
	timeout 120 docker pull -q "${TOOLD_TEST_POSTGRES_IMAGE:-postgres:16-alpine}" >/dev/null 2>&1
}

install() {
	if ! command -v apt-get >/dev/null 2>&1; then
		echo "deps: not Debian or Ubuntu: install by hand:" "$@" >&2
		exit 1
	fi
	as_root=
	if [ "$(id -u)" != 0 ]; then
		as_root=sudo
	fi
	# The tests start servers of their own: no cluster on the machine's port 5432.
	if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
		$as_root mkdir -p /etc/postgresql-common
		echo 'create_main_cluster = false' | $as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
	fi
	echo "deps: installing" "$@"
	$as_root apt-get -qq update
	$as_root env DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1 \
		apt-get -qq -y --no-install-recommends install "$@" >/dev/null
}

if [ "${1:-}" = --postgres ]; then
	if [ -n "${TOOLD_TEST_POSTGRES:-}" ] || have initdb || engine_has_postgres; then
		exit 0
	fi
	if [ "$(id -u)" != 0 ]; then
		echo "deps: the tests need Postgres: start Docker, or install the server with 'make deps'" >&2
		exit 1
	fi
	install postgresql
	exit 0
fi

wanted=$(missing)
if [ -n "$wanted" ]; then
	# shellcheck disable=SC2086 # package names have no blanks
	install $wanted
fi
echo "deps: everything is there"
