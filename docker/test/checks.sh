# For docker/test.sh: what a check is, and what checks share. Each check is one sentence, and a command or a text that has to occur in what
# it prints.

failures=0
figures=()
untested=()

passed() { echo "ok      $1"; }
failed() {
  failures=$((failures + 1))
  echo "FAILED  $1"
  [ $# -lt 2 ] || sed 's/^/        /' <<<"$2"
}
not_tested() { # what, and why
  untested+=("$1")
  echo "NOT TESTED: $1"
}
says() { # sentence, expected text, command…
  local sentence=$1 expected=$2 output
  shift 2
  output=$("$@" 2>&1) || true
  if [[ $output == *"$expected"* ]]; then passed "$sentence"; else failed "$sentence" "$output"; fi
}
succeeds() { # sentence, command…
  local sentence=$1 output code=0
  shift
  output=$("$@" 2>&1) || code=$?
  if [ "$code" = 0 ]; then passed "$sentence"; else failed "$sentence" "exit code $code: $output"; fi
}
at_most() { # sentence, figure, limit, unit: whole numbers
  if [ "$2" -le "$3" ]; then passed "$1: $2 $4, at most $3"; else failed "$1: $2 $4, more than $3"; fi
}
wait_for() { # seconds, expected text, command…
  local end=$((SECONDS + $1)) expected=$2
  shift 2
  until "$@" 2>&1 | grep -F -- "$expected" >/dev/null; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.2
  done
}

# Every container of this test bears the label, by which those that are left are removed in the end.
label=python-execute-test=$$
run() { docker run --label "$label" "$@"; }
ended() { docker inspect --format '{{.State.Status}} with {{.State.ExitCode}}.' "$1"; }
inside() { run --rm --network none --entrypoint "$@"; }
script() { docker exec "$1" node --input-type=module -e "$2" "${@:3}"; } # container, JavaScript, arguments

# What docker-compose.yml says, as options of `docker run`.
hardened=(--read-only --cap-drop ALL --security-opt no-new-privileges:true
  --security-opt seccomp=docker/seccomp.json --security-opt apparmor=unconfined --pids-limit 512
  --memory 2560m --memory-swap 2560m --tmpfs /tmp:mode=1777,size=1g --env MAX_CONCURRENT_CALLS=4)

# A call through the embedded backend of a container; prints what its code prints, and then how it ended.
call() { # container of the backend, code
  script "$1" 'const response = await fetch("http://127.0.0.1:8471/dev/call", {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ code: process.argv[1] }) })
  for await (const piece of response.body) process.stdout.write(piece)' "$2"
}
# The same in the background, once the code has begun and printed that: what comes is in $work/answer. Sets `answer`, to be waited for.
begin_call() { # container of the backend, code
  : >"$work/answer" # not the one before
  call "$1" "print('begun', flush=True)
$2" >"$work/answer" &
  answer=$!
  wait_for 20 begun cat "$work/answer" || failed 'a call begins' "$(cat "$work/answer")"
}
# "200 namespaces": whether the worker in a container is ready, and its tier.
readyz() {
  script "$1" 'const response = await fetch("http://127.0.0.1:8470/readyz")
  const { tier, state, reasons } = await response.json()
  console.log(response.status, tier ?? state, ...reasons)'
}
