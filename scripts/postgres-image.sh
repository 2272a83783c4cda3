#!/bin/sh
# Makes the image toold-test/postgres:local for the local Docker engine out of
# the Postgres server that this machine has installed, for places where no image
# can be pulled. Nothing is downloaded. With an image already there it does
# nothing; --force makes a new one.
set -eu
cd "$(dirname "$0")/.."
image=toold-test/postgres:local

# Test binaries run side by side: one of them builds, the others wait for it.
exec 9>"${TMPDIR:-/tmp}/toold-postgres-image.lock"
flock 9
if [ "${1:-}" != --force ] && docker image inspect "$image" >/dev/null 2>&1; then
	exit 0
fi

bin=$(dirname "$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -V | tail -n 1)")
if [ "$bin" = . ]; then
	echo "postgres-image: no Postgres server under /usr/lib/postgresql: run 'make deps' first" >&2
	exit 1
fi
home=$(dirname "$bin")
share=/usr/share/postgresql/$(basename "$home")

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

programs="sh cat chmod chown env id ls mkdir rm setpriv sleep"
paths=$(for p in $programs; do readlink -f "$(command -v "$p")"; done)

# Whatever the programs and the server's modules are linked against.
libraries=$(find "$bin" "$home/lib" $paths -type f \( -perm -u+x -o -name '*.so' \) -exec ldd {} + 2>/dev/null |
	grep -o '/[^ :]*\.so[^ :]*' | grep -v "^$home/" | sort -u)

# -h: links become what they point at, so that nothing is left dangling; bitcode
# and the compiler that reads it are only for the JIT, which tests do without.
tar -ch --exclude bitcode --exclude 'llvmjit*' --exclude 'libLLVM*' -f - \
	$libraries "$home" "$share" /usr/share/zoneinfo /usr/lib/locale/C.utf8 2>/dev/null |
	tar -xf - -C "$root"
mkdir -p "$root/bin" "$root/etc" "$root/tmp" "$root/var/lib/postgresql" "$root/var/run/postgresql"
for p in $programs; do
	cp -L "$(command -v "$p")" "$root/bin/$p"
done
install -m 755 deploy/docker/postgres-test/entrypoint.sh "$root/bin/entrypoint.sh"
echo 'root:x:0:0::/:/bin/sh
postgres:x:999:999::/var/lib/postgresql:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:
postgres:x:999:' >"$root/etc/group"
chmod 1777 "$root/tmp"

tar -C "$root" --numeric-owner --owner 0 --group 0 -cf - . | docker import \
	--change "ENV PATH=/bin:$bin LANG=C.UTF-8 PGDATA=/var/lib/postgresql/data" \
	--change 'ENTRYPOINT ["/bin/entrypoint.sh"]' --change 'CMD ["postgres"]' \
	--change 'EXPOSE 5432' \
	--change 'VOLUME /var/lib/postgresql/data' - "$image" >/dev/null
echo "postgres-image: made $image from $home"
