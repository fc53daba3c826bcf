#!/bin/bash
# Run by cgroup-vm.sh in its virtual machine, with the current folder in the checkout: first the program as a service would be started
# to which a cgroup was delegated, then the tests that are named. Prints what fails; its exit code is 0 when nothing has.
set -u
root=/sys/fs/cgroup
failed=0
fail() {
  failed=1
  echo "FAILED: $*"
}

echo '+memory +pids' >$root/cgroup.subtree_control

# In a cgroup of its own that belongs to a user, as with Delegate=yes: runs the program there, and nothing else.
service() { # user name arguments…
  local user=$1 name=$2 group=$root/$2
  shift 2
  mkdir -p "$group"
  chown "$user" "$group" "$group"/cgroup.{procs,subtree_control,threads}
  (
    echo "$BASHPID" >"$group/cgroup.procs"
    exec setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups env HOME=/var/tmp TMPDIR=/var/tmp \
      SANDBOX_MEMORY_MB=160 SANDBOX_PRELOAD=json "$NODE" dist/main.js "$@"
  )
}

leftovers() { find "$1" -mindepth 1 -type d -name 'pyx-*'; }

for user in root nobody; do
  echo "the program as a service of $user"
  said=$(service "$user" "$user" doctor 2>&1)
  grep -q '✓ cgroup$' <<<"$said" || fail "no cgroup for $user: $said"
  grep -q 'memory: held by a cgroup' <<<"$said" || fail "doctor does not say that $user has cgroups"
  [ -z "$(leftovers $root/$user)" ] || fail "$user has left $(leftovers $root/$user)"
  [ -z "$(cat $root/$user/cgroup.subtree_control)" ] || fail "$user has left controllers on"

  said=$(echo 'print("before", flush=True); block = b"x" * (400 << 20); print("after")' | service "$user" "$user" exec --json - 2>&1)
  grep -q '"status": *"out_of_memory"' <<<"$said" || fail "no verdict for $user: $said"
  grep -q '"cgroup": *true' <<<"$said" || fail "no cgroup in the provenance of $user: $said"
  [ -z "$(leftovers $root/$user)" ] || fail "$user has left $(leftovers $root/$user)"
done

echo 'in company'
# Somebody else in the same cgroup is not moved about, and nothing is left of the attempt.
mkdir $root/shared
sleep 600 &
echo $! >$root/shared/cgroup.procs
said=$(service root shared doctor 2>&1)
grep -q '✗ cgroup (cgroup.subtree_control of its cgroup refused with errno 16 (EBUSY))' <<<"$said" || fail "in company: $said"
[ "$(cat $root/shared/cgroup.procs)" = $! ] || fail 'the other process was moved'
[ -z "$(leftovers $root/shared)" ] || fail "left in company: $(leftovers $root/shared)"
kill $!

echo 'after a kill'
# A worker that is killed leaves its folder, and the next one removes it.
echo 'import time; print("here", flush=True); time.sleep(600)' >/var/tmp/sleep.py
SANDBOX_PRELOAD=json "$NODE" dist/main.js exec /var/tmp/sleep.py >/var/tmp/said 2>&1 &
for _ in $(seq 600); do
  grep -q here /var/tmp/said && break
  sleep 0.2
done
[ -n "$(leftovers $root)" ] || fail "a running worker has no folder: $(cat /var/tmp/said)"
kill -9 $!
wait $! 2>/dev/null
sleep 2
[ -n "$(leftovers $root)" ] || fail 'a killed worker has left nothing, so that this shows nothing'
SANDBOX_PRELOAD=json "$NODE" dist/main.js doctor >/dev/null 2>&1
[ -z "$(leftovers $root)" ] || fail "still there after the next start: $(leftovers $root)"
[ $failed = 1 ] || echo 'the program as a service: passed'

if [ $# -gt 0 ]; then
  "$NODE" node_modules/vitest/vitest.mjs run --no-cache --testTimeout=300000 --hookTimeout=300000 "$@" || failed=1
  [ -z "$(leftovers $root)" ] || fail "left by the tests: $(leftovers $root)"
fi
exit $failed
