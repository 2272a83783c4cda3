#!/bin/sh
# Entry point of the test image that scripts/postgres-image.sh makes. It keeps
# the official image's contract as far as tests use it: POSTGRES_USER,
# POSTGRES_PASSWORD, POSTGRES_DB, POSTGRES_HOST_AUTH_METHOD and PGDATA; the
# server's ready line appears twice on first start; arguments go to postgres.
set -eu

: "${PGDATA:=/var/lib/postgresql/data}" "${POSTGRES_USER:=postgres}"
: "${POSTGRES_DB:=$POSTGRES_USER}" "${POSTGRES_HOST_AUTH_METHOD:=scram-sha-256}"

if [ "${1:-postgres}" = postgres ]; then
	[ $# = 0 ] || shift
elif [ "${1#-}" = "$1" ]; then
	exec "$@"
fi

if [ "$(id -u)" = 0 ]; then
	mkdir -p "$PGDATA" /var/run/postgresql
	chown postgres:postgres "$PGDATA" /var/run/postgresql
	chmod 700 "$PGDATA"
	exec setpriv --reuid postgres --regid postgres --clear-groups "$0" postgres "$@"
fi

if [ ! -s "$PGDATA/PG_VERSION" ]; then
	if [ -z "${POSTGRES_PASSWORD:-}" ] && [ "$POSTGRES_HOST_AUTH_METHOD" != trust ]; then
		echo "set POSTGRES_PASSWORD, or POSTGRES_HOST_AUTH_METHOD=trust" >&2
		exit 1
	fi
	umask 077
	printf '%s\n' "${POSTGRES_PASSWORD:-none}" >/tmp/password
	initdb -D "$PGDATA" --username "$POSTGRES_USER" --pwfile /tmp/password \
		--auth-local trust --encoding UTF8 --locale C.UTF-8 --no-sync
	rm /tmp/password
	echo "host all all all $POSTGRES_HOST_AUTH_METHOD" >>"$PGDATA/pg_hba.conf"
	echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"

	pg_ctl -D "$PGDATA" -w -o "-c listen_addresses=''" start
	if [ "$POSTGRES_DB" != postgres ]; then
		psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
			--set db="$POSTGRES_DB" <<-'SQL'
				CREATE DATABASE :"db";
			SQL
	fi
	pg_ctl -D "$PGDATA" -w -m fast stop
fi

exec postgres -D "$PGDATA" "$@"
