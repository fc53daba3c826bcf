# For docker/test.sh: docker-compose.yml as it is, with Compose itself. Only the image's name and the published port are other ones.

folder=$work/compose
project=python-execute-test-$$
mkdir -p "$folder/docker"
cp docker-compose.yml "$folder"
cp docker/seccomp.json "$folder/docker"
cat >"$folder/docker-compose.override.yml" <<YAML
services:
  worker: { image: "$image", labels: ["$label"] }
  demo: { image: "$image", ports: !override ["127.0.0.1::8470"], labels: ["$label"] }
  backend: { image: "$image", labels: ["$label"] }
YAML

# The installed one if it is new enough, else Debian's in a container, which speaks to the engine's socket.
if version=$(docker compose version --short 2>/dev/null) && [ "$(printf '2.24\n%s\n' "${version#v}" | sort -V | head -n 1)" = 2.24 ]; then
  compose() { (cd "$folder" && docker compose --project-name "$project" "$@"); }
else
  socket=${DOCKER_HOST:-unix:///var/run/docker.sock}
  docker build --quiet --network host --tag python-execute-compose:test - >/dev/null <<DOCKERFILE
FROM $runtime
RUN apt-get update && apt-get install -y --no-install-recommends docker-compose docker-cli
DOCKERFILE
  compose() {
    run --rm --network none --volume "${socket#unix://}:/var/run/docker.sock" --volume "$folder:$folder" --workdir "$folder" \
      python-execute-compose:test docker compose --project-name "$project" --ansi never "$@"
  }
  version=$(compose version --short)
fi
echo "with Compose $version"

# Not `succeeds`, which would keep what is started waiting for the end of its output.
if compose up --detach demo >"$work/up" 2>&1; then
  passed 'compose: up demo, without any .env'
else
  failed 'compose: up demo, without any .env' "$(cat "$work/up")"
fi
wait_for 60 'sample calls came back' compose --profile demo logs backend || true
says 'compose: the backend shows the samples come back' 'All 3 sample calls came back as they should.' \
  compose --profile demo logs backend
says 'compose: up demo starts no other worker' '<>' echo "<$(compose ps --all --quiet worker)>"
worker=$(compose --profile demo ps --quiet demo)
backend=$(compose --profile demo ps --quiet backend)
says 'compose: the first lines of the log say the namespaces tier' '"tier":"namespaces","layers"' \
  bash -c "docker logs $worker 2>&1 | head -n 6"
says 'compose: /readyz is green and says so too' '200 namespaces' readyz "$worker"
says 'compose: the page is published, for this machine alone' '127.0.0.1:' compose --profile demo port demo 8470
port=$(compose --profile demo port demo 8470)
says 'compose: the page can be looked at' 'namespaces' run --rm --network host --entrypoint node "$image" --input-type=module -e \
  'console.log(await (await fetch(`http://${process.argv[1]}/`)).text())' "$port"
# In a browser, as a person sees it: laid out, with the colours of its parts, and the tables within the window.
if command -v chromium >/dev/null; then
  browse() { # options of chromium…
    timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
      --user-data-dir="$work/browser" --window-size=1000,800 "$@" "http://$port/" 2>/dev/null
  }
  says 'compose: a browser shows that the worker serves' '<strong>serving</strong>' browse --dump-dom
  browse --screenshot="$work/page.png" >/dev/null || true
  succeeds 'compose: a screenshot of it has text, and the colour of what is well' inside python3 -i "$image" -c 'import io, sys
from PIL import Image
image = Image.open(io.BytesIO(sys.stdin.buffer.read())).convert("RGB")
colours = dict((colour, count) for count, colour in image.getcolors(1 << 24))
print(image.size, len(colours))
assert image.size == (1000, 800) and len(colours) > 20
assert colours.get((0x1a, 0x7f, 0x37), 0) > 500 and colours.get((0, 0, 0), 0) > 500' <"$work/page.png"
  [ -z "${SCREENSHOT:-}" ] || cp "$work/page.png" "$SCREENSHOT"
else
  not_tested 'the page in a browser, for which chromium is needed'
fi
says 'compose: the backend is published nowhere' 'map[]' docker inspect --format '{{.HostConfig.PortBindings}}' "$backend"
says 'compose: no way to send calls but from the backend'\''s own container' '403' script "$worker" \
  'console.log((await fetch("http://demo-backend:8471/dev/call", { method: "POST" })).status)'
wait_for 60 '"healthy"' docker inspect --format '{{json .State.Health.Status}}' "$worker" || true
says 'compose: the engine finds it healthy' 'healthy' docker inspect --format '{{.State.Health.Status}}' "$worker"

# The call outlasts the drain's budget, so that all of stop_grace_period is needed.
begin_call "$backend" 'import time
time.sleep(120)'
from=$SECONDS
compose --profile demo stop demo >/dev/null 2>&1
took=$((SECONDS - from))
wait "$answer" || true
says 'compose stop: a call that outlasts the budget is answered' 'may have run in part' cat "$work/answer"
says 'compose stop: the worker ends by itself, with exit code 0' 'exited with 0.' ended "$worker"
at_most 'compose stop: within its grace period' "$took" 34 s
figures+=("compose stop with a call that outlasts the budget of 25 s: $took s")
compose --profile demo start demo >/dev/null 2>&1
wait_for 60 '200 namespaces' readyz "$worker" || true
says 'compose start: serves again on the same volume' 'completed' call "$backend" 'print(1)'
compose --profile demo down --volumes --timeout 35 >/dev/null 2>&1
says 'compose down: leaves no container' '0' bash -c "docker ps --all --quiet --filter label=com.docker.compose.project=$project | wc -l"

# What .env says reaches the worker, and the demo's address and key never do.
setting() { # service, variable: what Compose gives it, empty where nothing
  compose --profile demo config --format json | inside node -i "$image" -e '
    const { services } = JSON.parse(require("fs").readFileSync(0, "utf8"))
    console.log(`<${services[process.argv[1]].environment[process.argv[2]] ?? ""}>`)' "$1" "$2"
}
says 'compose: without an .env the worker has no key' '<>' setting worker FLEXUS_API_KEY
says 'compose: without an .env the worker runs 4 calls at once' '<4>' setting worker MAX_CONCURRENT_CALLS
printf '%s\n' FLEXUS_API_BASEURL=https://backend.example/ MAX_CONCURRENT_CALLS=8 DRAIN_MS=5000 HEALTH_PORT=9000 >"$folder/.env"
says 'compose: .env has the address' '<https://backend.example/>' setting worker FLEXUS_API_BASEURL
says 'compose: an .env with an address and no key gives no key' '<>' setting worker FLEXUS_API_KEY
says 'compose: .env has the calls at once' '<8>' setting worker MAX_CONCURRENT_CALLS
says 'compose: .env has the time for a drain' '<5000>' setting worker DRAIN_MS
says 'compose: .env has the health port' '<9000>' setting worker HEALTH_PORT
says 'compose: .env is not the demo'\''s' '<http://demo-backend:8471/>' setting demo FLEXUS_API_BASEURL
