#!/usr/bin/env bash
# Tests of docker/kubernetes that take programs beyond npm's: what kubectl renders is what test/unit/kubernetes.test.ts looked at, and
# the alerts are raised when they should be. Says what it could not test, and exits with 69 then.
set -euo pipefail
cd "$(dirname "$0")/../.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0

if kubectl kustomize --help >/dev/null 2>&1; then
  for overlay in plain userns gvisor; do
    # Beside a copy, since kustomize takes relative folders only.
    mkdir -p "$scratch/rendered" "$scratch/kubernetes/$overlay"
    cp -r docker/kubernetes/base docker/kubernetes/overlays docker/kubernetes/components "$scratch/kubernetes/"
    components='../components/monitoring, ../components/autoscaling'
    [ "$overlay" != userns ] || components+=', ../components/seccomp'
    printf 'resources: [../overlays/%s]\ncomponents: [%s]\n' "$overlay" "$components" \
      >"$scratch/kubernetes/$overlay/kustomization.yaml"
    kubectl kustomize "$scratch/kubernetes/$overlay" >"$scratch/rendered/$overlay.yaml"
  done
  RENDERED=$scratch/rendered npx vitest run test/unit/kubernetes.test.ts </dev/null
else
  echo 'NOT TESTED: there is no kubectl that renders kustomizations'
  status=69
fi

promtool=$(command -v promtool || true)
if [ -z "$promtool" ] && command -v apt-get >/dev/null; then
  # The program alone: as a package it would start a server.
  (
    cd "$scratch"
    apt-get download -qq prometheus >/dev/null 2>&1 || { apt-get update -qq && apt-get download -qq prometheus >/dev/null; } || exit 0
    dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
  ) </dev/null
  promtool=$scratch/usr/bin/promtool
fi
if [ -x "$promtool" ]; then
  cp docker/kubernetes/components/monitoring/rules.test.yaml "$scratch/"
  # Prometheus reads groups; the operator's object has them in its spec.
  node --input-type=module -e '
    import { readFileSync } from "node:fs"
    import { parse, stringify } from "yaml"
    const { groups } = parse(readFileSync("docker/kubernetes/components/monitoring/rules.yaml", "utf8")).spec
    process.stdout.write(stringify({ groups }))
  ' >"$scratch/rules.yaml"
  "$promtool" test rules "$scratch/rules.test.yaml"
  # The dashboard has no unit tests, but its expressions have to be some.
  node --input-type=module -e '
    import { readFileSync } from "node:fs"
    const { panels } = JSON.parse(readFileSync("docker/grafana-dashboard.json", "utf8"))
    const expressions = panels.flatMap(panel => panel.targets ?? []).map(({ expr }) => expr.replaceAll(/\$__rate_interval/g, "5m"))
    const rules = expressions.map((expr, index) => ({ record: `dashboard:${index}`, expr }))
    process.stdout.write(JSON.stringify({ groups: [{ name: "dashboard", rules }] }))
  ' >"$scratch/dashboard.yaml"
  "$promtool" check rules "$scratch/dashboard.yaml"
else
  echo 'NOT TESTED: there is no promtool'
  status=69
fi
exit "$status"
