#!/usr/bin/env bash
# Shows toold's main job from nothing: build, start on embedded storage, run a
# batch over this repository, look into the audit log, read a truncated result
# back whole, stop. It leaves nothing behind but bin/.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
show() { printf '\033[2m$ %s\033[0m\n' "$*"; "$@"; }
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] || { say() { printf '\n== %s\n' "$*"; }; show() { printf '$ %s\n' "$*"; "$@"; }; }

work=$(mktemp -d)
pid=
stop() {
  if [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; then
    kill -TERM "$pid"
    wait "$pid" || true
  fi
  pid=
}
trap 'stop; rm -rf "$work"' EXIT

say "build"
make --no-print-directory build
PATH="$PWD/bin:$PATH"
export TOOLD_DATA_DIR="$work/data"

say "start the daemon: embedded storage, profile ci, this folder and a scratch copy as workspaces"
mkdir "$work/scratch"
cp internal/exec/plan.go "$work/scratch/plan.go"
toold --profile ci --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 \
  --workspace . --workspace "scratch=$work/scratch" 2>"$work/log" &
pid=$!
for _ in $(seq 100); do
  toolctl info >/dev/null 2>&1 && break
  kill -0 "$pid" 2>/dev/null || { cat "$work/log"; exit 1; }
  sleep 0.1
done
cat "$work/log"

say "one batch: decided, recorded, scheduled, run, budgeted, streamed (one call is refused, so the status is 1)"
show toolctl batch examples/first-batch.yaml || [ $? -eq 1 ]

say "the same, from the audit log by SQL"
show toold sql "SELECT call_id, tool, side_effect AS class, verdict, policy_id FROM audit_api_decisions ORDER BY decided_at, call_id LIMIT 20"
show toold sql "SELECT d.tool, d.verdict, d.reason FROM audit_api_decisions d WHERE d.verdict = 'DENY'"

say "a result that did not fit, read back whole by its URI"
batch=$(toolctl list -o json | grep -o '"batch_\?[iI]d": *"[^"]*"' | head -n 1 | cut -d'"' -f4)
uri=$(toolctl get "$batch" -o json | grep -o 'toold://artifacts/[0-9a-f-]*' | head -n 1)
show toolctl artifact get "$uri" -O "$work/whole"
printf '%s bytes, %s lines\n' "$(wc -c <"$work/whole")" "$(wc -l <"$work/whole")"

say "stop the daemon"
stop
tail -n 1 "$work/log"
printf 'left behind: bin/toold and bin/toolctl (make clean removes them)\n'
