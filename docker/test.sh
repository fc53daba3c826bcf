#!/usr/bin/env bash
# Builds the image and runs it for real: with an engine's default settings (landlock tier) and as docker-compose.yml does
# (namespaces tier).
#
#   docker/test.sh            with the engine that `docker` reaches; as root, one is started for the test if there is none
#   BASE=… RUNTIME=… …        other base images; if the default ones can't be pulled, make-base.sh makes stand-ins
#   KEEP_IMAGE=1 …            leaves the image behind
set -euo pipefail
cd "$(dirname "$0")/.."

image=python-execute-worker:test
work=$(mktemp -d)
engine=
failures=0

cleanup() {
  [ -n "${KEEP_IMAGE:-}" ] || docker image rm -f "$image" >/dev/null 2>&1 || true
  if [ -n "$engine" ]; then
    kill "$engine" 2>/dev/null || true
    wait "$engine" 2>/dev/null || true
    # The engine leaves the mount of its network namespace.
    cut -d ' ' -f 2 /proc/mounts | grep "^$work/" | sort -r | xargs -r umount || true
  fi
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT

if ! docker info >/dev/null 2>&1; then
  command -v dockerd >/dev/null || { echo "no engine: install one (Debian: docker.io) or start it" >&2; exit 69; }
  [ "$(id -u)" = 0 ] || { echo "no engine runs, and only root can start one" >&2; exit 69; }
  echo "no engine runs: starting one for this test"
  export DOCKER_HOST="unix://$work/docker.sock"
  dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" --host "$DOCKER_HOST" \
    --bridge none --iptables=false >"$work/dockerd.log" 2>&1 &
  engine=$!
  for _ in $(seq 60); do docker info >/dev/null 2>&1 && break; sleep 0.5; done
  docker info >/dev/null 2>&1 || { tail -n 20 "$work/dockerd.log" >&2; exit 69; }
fi

base=${BASE:-node:24-trixie-slim}
runtime=${RUNTIME:-debian:trixie-slim}
usable() { docker image inspect "$1" >/dev/null 2>&1 || docker pull --quiet "$1" >/dev/null 2>&1; }
if ! usable "$base" || ! usable "$runtime"; then
  echo "the base images can't be pulled: making stand-ins"
  docker/make-base.sh
  base=python-execute-base:node
  runtime=python-execute-base:debian
fi
docker build --quiet --network host --build-arg "BASE=$base" --build-arg "RUNTIME=$runtime" \
  --build-arg "REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)" --tag "$image" . >/dev/null

# ---- checks: each is one sentence, and a command or a text that has to occur in a command's output

passed() { echo "ok      $1"; }
failed() {
  failures=$((failures + 1))
  echo "FAILED  $1"
  [ $# -lt 2 ] || sed 's/^/        /' <<<"$2"
}
says() { # sentence, expected text, command…
  local sentence=$1 expected=$2 output
  shift 2
  output=$("$@" 2>&1) || true
  if grep -qF -- "$expected" <<<"$output"; then passed "$sentence"; else failed "$sentence" "$output"; fi
}
succeeds() { # sentence, command…
  local sentence=$1 output
  shift
  if output=$("$@" 2>&1); then passed "$sentence"; else failed "$sentence" "exit code $?: $output"; fi
}
inside() { docker run --rm --network none --entrypoint "$@"; }
default=(docker run --rm -i --network none)
# What docker-compose.yml says, as options of `docker run`.
hardened=(docker run --rm -i --network none --read-only --cap-drop ALL --security-opt no-new-privileges:true
  --security-opt seccomp=docker/seccomp.json --security-opt apparmor=unconfined --pids-limit 512
  --memory 2560m --memory-swap 2560m --tmpfs /tmp:mode=1777,size=1g --env MAX_CONCURRENT_CALLS=4)

succeeds 'has no compiler and no package manager of node' inside sh "$image" -c \
  'for name in cc gcc g++ make npm npx yarn corepack; do ! command -v $name || exit 1; done'
says 'runs as a user of its own' 'worker' inside id "$image" -un
says 'has tini as its first process' 'tini' docker image inspect --format '{{.Config.Entrypoint}}' "$image"
says 'carries a licence label' 'MIT' docker image inspect \
  --format '{{index .Config.Labels "org.opencontainers.image.licenses"}}' "$image"
says 'says its version' "$(sed -n 's/^  "version": "\(.*\)",$/\1/p' package.json)" "${default[@]}" "$image" --version
says 'refuses to start without a backend' 'FLEXUS_API_BASEURL' "${default[@]}" "$image"
succeeds 'has the libraries that the image promises' "${default[@]}" "$image" exec - <<<'import numpy, pandas, matplotlib.pyplot, scipy.stats, sympy, openpyxl, lxml.etree, PIL.Image, tabulate, dateutil, requests, bs4'

says 'default settings give the landlock tier' 'tier landlock: in use' "${default[@]}" "$image" doctor
says 'default settings: doctor says what is missing for more' 'in Docker use the seccomp profile' "${default[@]}" "$image" doctor
succeeds 'default settings: the demo comes through' "${default[@]}" "$image" demo
says 'default settings as root: each slot has a uid of its own' '✓ uid' "${default[@]}" --user 0 "$image" doctor
succeeds 'default settings as root: the demo comes through' "${default[@]}" --user 0 "$image" demo

says 'hardened settings give the namespaces tier' 'tier namespaces: in use' "${hardened[@]}" "$image" doctor
says 'hardened settings: pandas is preloaded' 'pandas ' "${hardened[@]}" "$image" doctor
succeeds 'hardened settings: the demo comes through' "${hardened[@]}" "$image" demo
says 'hardened settings: code may start processes' 'from a child' "${hardened[@]}" "$image" exec - \
  <<<'import subprocess; print(subprocess.run(["/bin/echo", "from a child"], capture_output=True, text=True).stdout)'
says 'hardened settings: a memory hog is named' 'out of memory' "${hardened[@]}" "$image" exec - \
  <<<'block = b"x" * (1 << 30)'
says 'hardened settings with the engine'\''s own profile fall back to landlock' 'tier landlock: in use' \
  docker run --rm --network none --read-only --cap-drop ALL --security-opt no-new-privileges:true \
  --tmpfs /tmp:mode=1777,size=1g "$image" doctor

container=$(docker run --detach "${hardened[@]:4}" "$image" dev)
for _ in $(seq 100); do docker logs "$container" 2>&1 | grep -q 'curl' && break; sleep 0.2; done
docker stop --time 35 "$container" >/dev/null
says 'a stop ends it with exit code 0' '0' docker inspect --format '{{.State.ExitCode}}' "$container"
docker rm "$container" >/dev/null

docker image inspect --format 'size: {{.Size}} bytes' "$image"
if [ "$failures" -gt 0 ]; then
  echo "$failures checks of the image failed" >&2
  exit 1
fi
echo 'all checks of the image passed'
