# For docker/test.sh: the worker in service against the embedded backend, with each kind of settings.

backend=$(run --detach --network none --env FLEXUS_API_KEY=fx-image-test "$image" backend --port 8471)
wait_for 30 'FLEXUS_API_KEY=' docker logs "$backend" || failed 'the backend starts' "$(docker logs "$backend" 2>&1)"
least_start=999999

# Sets `worker`. The backend listens on its own container's loopback interface, which the worker shares.
start_worker() { # volume, options of docker run…
  worker=$(run --detach --network "container:$backend" --volume "$1:/var/lib/python-execute" \
    --env FLEXUS_API_BASEURL=http://127.0.0.1:8471/ --env FLEXUS_API_KEY=fx-image-test "${@:2}" "$image")
  wait_for 60 'tools registered' docker logs "$worker"
}

all_json='let text = ""
for await (const piece of process.stdin) text += piece
const lines = text.trimEnd().split("\n").map(line => JSON.parse(line))
const bad = lines.filter(line => !line.level || !line.msg || Number.isNaN(Date.parse(line.time)))
if (lines.length < 5 || bad.length > 0) throw new Error(JSON.stringify(bad))
console.log(lines.length, "lines of JSON")'

# Milliseconds from the start of the container until the tool was registered, by the engine's clock and the log's.
start_ms() {
  docker logs "$1" 2>/dev/null | inside node -i "$image" --input-type=module -e 'let text = ""
for await (const piece of process.stdin) text += piece
const line = text.split("\n").find(one => one.includes("\"tools registered\""))
console.log(Math.round(Date.parse(JSON.parse(line).time) - Date.parse(process.argv[1])))' \
    "$(docker inspect --format '{{.State.StartedAt}}' "$1")"
}

# MB (10^6 bytes) of all processes of a container: what each has alone and its share of what they share.
memory_mb() {
  local pid sum=0 part
  for pid in $(docker top "$1" -eo pid | tail -n +2); do
    part=$(awk '/^Pss:/ { print $2 }' "/proc/$pid/smaps_rollup" 2>/dev/null || true)
    sum=$((sum + ${part:-0}))
  done
  echo $((sum * 1024 / 1000000))
}

# The isolation and output cases of a folder with a runner, if one was given, each against `exec --jsonl` of a container. What a case sets
# in its environment is handed on. They share the machine's network, so that what the code must not reach is within the worker's reach.
cases() { # sentence, tier, options of docker run…
  [ -n "${CASES:-}" ] || return 0
  local sentence=$1 tier=$2
  shift 2
  compgen -e | sort >"$work/names"
  {
    echo '#!/usr/bin/env bash'
    printf 'mapfile -t names < <(comm -13 %q <(compgen -e | sort) | grep -vx CASES_CMD)\n' "$work/names"
    printf 'exec docker run --rm -i --label %q %s "${names[@]/#/--env=}" %q exec --jsonl\n' \
      "$label" "$(printf '%q ' "$@")" "$image"
  } >"$work/run-case"
  chmod +x "$work/run-case"
  local answer
  answer=$(CASES_CMD="$work/run-case" node "$CASES/run.mjs" --tier "$tier" --only iso- --only out- 2>&1) || true
  if grep -Eq '^[1-9][0-9]* passed, 0 failed' <<<"$answer"; then
    passed "$sentence: cases iso- and out-: $(tail -n 1 <<<"$answer")"
  else
    failed "$sentence: cases iso- and out-" "$answer"
  fi
}

in_service() { # sentence, tier, options of docker run…
  local sentence=$1 tier=$2 ms mb volume=python-execute-test-$$-$RANDOM
  shift 2
  docker volume create --label "$label" "$volume" >/dev/null
  if ! start_worker "$volume" "$@"; then
    failed "$sentence: starts" "$(docker logs "$worker" 2>&1)"
    return
  fi
  says "$sentence: the first lines of the log say the $tier tier" "\"tier\":\"$tier\",\"layers\"" \
    bash -c "docker logs $worker 2>&1 | head -n 6"
  says "$sentence: /readyz is green and says so too" "200 $tier" readyz "$worker"
  succeeds "$sentence: the health check passes" docker exec "$worker" node /app/healthcheck.mjs
  says "$sentence: a call is answered" "$(printf '42\n--- completed')" call "$backend" 'print(6 * 7)'
  says "$sentence: code reads nothing of the worker" '[]' call "$backend" 'import os
found = []
for path in ("/proc/1/environ", "/var/lib/python-execute/lock", "/app/package.json", "/etc/shadow"):
    try:
        found.append(open(path).read(1))
    except OSError:
        pass
print(found)'
  says "$sentence: code does not reach the backend" 'unreachable' call "$backend" 'import socket
try:
    socket.create_connection(("127.0.0.1", 8471), timeout=2)
except OSError:
    print("unreachable")'
  ms=$(start_ms "$worker")
  [ "$ms" -ge "$least_start" ] || least_start=$ms
  sleep 1
  mb=$(memory_mb "$worker")
  figures+=("$sentence: start to ready $ms ms, idle $mb MB")
  at_most "$sentence: idle memory with both zygotes" "$mb" 250 MB

  begin_call "$backend" 'import time
time.sleep(3)
print("ended")'
  docker stop --time 35 "$worker" >/dev/null
  wait "$answer" || true
  says "$sentence: SIGTERM lets a running call end" "$(printf 'begun\nended\n--- completed')" cat "$work/answer"
  says "$sentence: and ends with exit code 0" 'exited with 0.' ended "$worker"
  says "$sentence: the last line of the log says that all is answered" '"answered":true' docker logs --tail 1 "$worker"
  docker logs "$worker" >"$work/stdout" 2>"$work/stderr"
  succeeds "$sentence: all of the log is lines of JSON" inside node -i "$image" --input-type=module -e "$all_json" <"$work/stdout"
  if [ -s "$work/stderr" ]; then failed "$sentence: stderr stays empty" "$(cat "$work/stderr")"; fi
  docker rm --volumes "$worker" >/dev/null
  docker volume rm "$volume" >/dev/null
}

in_service 'default settings' landlock
says 'the backend shows the samples come back' 'All 3 sample calls came back as they should.' docker logs "$backend"
in_service 'compose settings' namespaces "${hardened[@]}"
in_service '--read-only' landlock --read-only --tmpfs /tmp:mode=1777,size=1g
in_service '--user 12345' landlock --user 12345
in_service '--cap-drop ALL' landlock --cap-drop ALL

cases 'default settings' landlock --network host
cases 'compose settings' namespaces --network host "${hardened[@]}"
cases '--read-only' landlock --network host --read-only --tmpfs /tmp:mode=1777,size=1g
cases '--user 12345' landlock --network host --user 12345
cases '--cap-drop ALL' landlock --network host --cap-drop ALL
cases '--network none' landlock --network none
cases '--network none, compose settings' namespaces --network none "${hardened[@]}"

# The best of five. A machine that is busy with other things says nothing about it.
load=$(cut -d . -f 1 /proc/loadavg)
if [ "$least_start" -gt 3000 ] && [ "$load" -ge "$(nproc)" ]; then
  not_tested "start to ready within 3000 ms: it was $least_start ms, with a load of $load on $(nproc) CPUs"
else
  at_most 'start to ready' "$least_start" 3000 ms
fi

# ---- a profile that is older than the image: namespaces can be made, but no sandbox in them

inside node -i "$image" -e 'const profile = JSON.parse(require("fs").readFileSync(0, "utf8"))
profile.syscalls.at(-1).names = profile.syscalls.at(-1).names.filter(name => name !== "clone")
console.log(JSON.stringify(profile))' <docker/seccomp.json >"$work/old-seccomp.json"
volume=python-execute-test-$$-old
docker volume create --label "$label" "$volume" >/dev/null
if start_worker "$volume" --security-opt "seccomp=$work/old-seccomp.json" --security-opt apparmor=unconfined; then
  says 'a profile without one of the calls: falls back to landlock, and is ready' '200 landlock' readyz "$worker"
else
  failed 'a profile without one of the calls: falls back to landlock, and is ready' "$(docker logs "$worker" 2>&1)"
fi
docker rm --force --volumes "$worker" >/dev/null

# ---- kill -9

volume=python-execute-test-$$-kill
docker volume create --label "$label" "$volume" >/dev/null
start_worker "$volume" || failed 'kill -9: starts' "$(docker logs "$worker" 2>&1)"
begin_call "$backend" 'import time
time.sleep(60)'
docker kill --signal KILL "$worker" >/dev/null
docker rm --volumes "$worker" >/dev/null
start_worker "$volume" || failed 'kill -9: starts again' "$(docker logs "$worker" 2>&1)"
wait "$answer" || true
says 'kill -9: the next container on the volume answers what was running' '--- interrupted' cat "$work/answer"
says 'kill -9: and says that it may have run in part' 'may have run in part' cat "$work/answer"
says 'kill -9: the log says so' 'a call was cut off by the end of the worker' docker logs "$worker"
says 'kill -9: it serves calls' 'completed' call "$backend" 'print(1)'
docker rm --force --volumes "$worker" >/dev/null
docker stop --time 10 "$backend" >/dev/null
says 'a stop ends the backend with exit code 0' 'exited with 0.' ended "$backend"
docker rm --volumes "$backend" >/dev/null
