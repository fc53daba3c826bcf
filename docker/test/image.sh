# For docker/test.sh: what the image holds, and what its commands do in both tiers.

default=(run --rm -i --network none)
compose_like=(run --rm -i --network none "${hardened[@]}")

succeeds 'has no compiler and no package manager of node' inside sh "$image" -c \
  'for name in cc gcc g++ cpp as ld make npm npx yarn corepack pip pip3; do ! command -v $name || exit 1; done'
says 'runs as a user of its own' 'worker' inside id "$image" -un
says 'has tini as its first process' 'tini' docker image inspect --format '{{.Config.Entrypoint}}' "$image"
says 'opens the health port to the container'\''s network' 'HEALTH_HOST=0.0.0.0' docker image inspect --format '{{.Config.Env}}' "$image"
says 'exposes it' '8470/tcp' docker image inspect --format '{{.Config.ExposedPorts}}' "$image"
says 'has a health check' 'healthcheck.mjs' docker image inspect --format '{{.Config.Healthcheck.Test}}' "$image"
for name in title description version revision created source licenses; do
  value=$(docker image inspect --format "{{index .Config.Labels \"org.opencontainers.image.$name\"}}" "$image")
  if [ -n "$value" ]; then passed "carries the label $name: ${value:0:60}"; else failed "carries the label $name"; fi
done
says 'carries the label base.name' "$runtime" docker image inspect \
  --format '{{index .Config.Labels "org.opencontainers.image.base.name"}}' "$image"
says 'lists its packages with their versions' 'python3-numpy	' inside dpkg-query "$image" --show
says 'says its version' "$(sed -n 's/^  "version": "\(.*\)",$/\1/p' package.json)" "${default[@]}" "$image" --version
says 'refuses to start without a backend' 'FLEXUS_API_BASEURL' "${default[@]}" "$image"
succeeds 'has the libraries that the image promises' "${default[@]}" "$image" exec - <<<'import numpy, pandas, matplotlib.pyplot, scipy.stats, sympy, openpyxl, lxml.etree, PIL.Image, tabulate, dateutil, requests, bs4'

says 'default settings give the landlock tier' 'tier landlock: in use' "${default[@]}" "$image" doctor
says 'default settings: doctor says what is missing for more' 'in Docker use the seccomp profile' "${default[@]}" "$image" doctor
succeeds 'default settings: the demo comes through' "${default[@]}" "$image" demo
says 'default settings as root: each slot has a uid of its own' '✓ uid' "${default[@]}" --user 0 "$image" doctor
succeeds 'default settings as root: the demo comes through' "${default[@]}" --user 0 "$image" demo

says 'hardened settings give the namespaces tier' 'tier namespaces: in use' "${compose_like[@]}" "$image" doctor
says 'hardened settings: pandas is preloaded' 'pandas ' "${compose_like[@]}" "$image" doctor
succeeds 'hardened settings: the demo comes through' "${compose_like[@]}" "$image" demo
says 'hardened settings: code may start processes' 'from a child' "${compose_like[@]}" "$image" exec - \
  <<<'import subprocess; print(subprocess.run(["/bin/echo", "from a child"], capture_output=True, text=True).stdout)'
says 'hardened settings: a memory hog is named' 'out of memory' "${compose_like[@]}" "$image" exec - \
  <<<'block = b"x" * (1 << 30)'
says 'hardened settings with systempaths=unconfined: sandboxes have a /proc' '✓ /proc of its own' \
  "${compose_like[@]}" --security-opt systempaths=unconfined "$image" doctor
says 'hardened settings with the engine'\''s own profile fall back to landlock' 'tier landlock: in use' \
  run --rm --network none --read-only --cap-drop ALL --security-opt no-new-privileges:true \
  --tmpfs /tmp:mode=1777,size=1g "$image" doctor

# What the profile lets a process do beyond the engine's own, and what it does not.
seccomp=(run --rm --network none --cap-drop ALL --entrypoint python3)
probe='import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
ctypes.set_errno(0)
print("allowed" if libc.syscall(*map(int, sys.argv[1:])) >= 0 else f"refused with errno {ctypes.get_errno()}")'
if [ "$(uname -m)" = x86_64 ]; then
  says 'the engine'\''s profile refuses user namespaces' 'refused' "${seccomp[@]}" "$image" -c "$probe" 272 268435456
  says 'the profile allows user namespaces' 'allowed' \
    "${seccomp[@]}" --security-opt seccomp=docker/seccomp.json "$image" -c "$probe" 272 268435456
  # bpf, perf_event_open, keyctl, io_uring_setup, kexec_load, add_key
  for number in 321 298 250 425 246 248; do
    says "the profile refuses call $number with EPERM" 'refused with errno 1' \
      "${seccomp[@]}" --security-opt seccomp=docker/seccomp.json "$image" -c "$probe" "$number" 0 0 0 0 0
  done
fi
