# Builds with the classic builder and with BuildKit alike.
#
#   docker build -t python-execute-worker .
#
# BASE builds and gives its node binary; RUNTIME is what the worker runs on, which so has neither npm nor anything else of BASE. Both
# have to be of the Debian release that DEBIAN names, which is checked. Pinned as it stands are the npm packages (package-lock.json, with
# their hashes) and the Debian release; the images behind the two tags, and so node, and Debian's packages are those of the day. To pin them
# too, name the images by digest (docker buildx imagetools inspect debian:trixie-slim says it) and the day of Debian's archive, not before
# that of the images. The packages are then the same each time; the bytes of the image are not, for the times in it.
#
#   docker build --build-arg BASE=node:24-trixie-slim@sha256:… --build-arg RUNTIME=debian:trixie-slim@sha256:… \
#     --build-arg SNAPSHOT=20260131T000000Z --build-arg SOURCE=https://… --build-arg REVISION="$(git rev-parse HEAD)" \
#     --build-arg CREATED="$(TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)" .
ARG BASE=node:24-trixie-slim
ARG RUNTIME=debian:trixie-slim

FROM ${BASE} AS build
ARG DEBIAN=trixie
RUN . /etc/os-release && [ "$VERSION_CODENAME" = "$DEBIAN" ] || { echo "BASE is not Debian $DEBIAN" >&2; exit 1; }
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY scripts scripts
COPY src src
RUN npm run --silent build

FROM ${BASE} AS production
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts

FROM ${RUNTIME}
ARG DEBIAN=trixie
# A time of https://snapshot.debian.org/, such as 20260131T000000Z; empty: the archive that RUNTIME itself names, as it is today.
ARG SNAPSHOT=
# What sandboxed code finds installed, from Debian: security updates come with the image's, and nothing is compiled here.
# A snapshot is signed as the archive is, and of necessity past its date.
RUN . /etc/os-release && { [ "$VERSION_CODENAME" = "$DEBIAN" ] || { echo "RUNTIME is not Debian $DEBIAN" >&2; exit 1; }; } \
 && if [ -n "$SNAPSHOT" ]; then \
      printf 'deb [check-valid-until=no] http://snapshot.debian.org/archive/%s/%s %s main\n' debian "$SNAPSHOT" "$DEBIAN" \
        debian "$SNAPSHOT" "$DEBIAN-updates" debian-security "$SNAPSHOT" "$DEBIAN-security" >/tmp/snapshot.list; \
      set -- -o Dir::Etc::sourcelist=/tmp/snapshot.list -o Dir::Etc::sourceparts=/dev/null; \
    fi \
 && apt-get "$@" update \
 && DEBIAN_FRONTEND=noninteractive apt-get "$@" install -y --no-install-recommends \
      tini libstdc++6 libatomic1 fonts-dejavu-core \
      python3 python3-numpy python3-pandas python3-matplotlib python3-scipy python3-sympy python3-restrictedpython \
      python3-openpyxl python3-lxml python3-pil python3-tabulate python3-dateutil python3-requests python3-bs4 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log /tmp/snapshot.list

# The journal's folder belongs to the worker, and to group 0, which a uid that `docker run --user` or OpenShift makes up is in.
RUN groupadd --system --gid 10001 worker \
 && useradd --system --uid 10001 --gid worker --home-dir /var/lib/python-execute --shell /usr/sbin/nologin worker \
 && install -d -o worker -g root -m 0770 /var/lib/python-execute

COPY --from=build /usr/local/bin/node /usr/local/bin/node
WORKDIR /app
COPY --from=production /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY package.json LICENSE README.md .env.example docker/healthcheck.mjs ./

ENV NODE_ENV=production \
    STATE_DIR=/var/lib/python-execute \
    SANDBOX_PYTHON=/usr/bin/python3 \
    HEALTH_HOST=0.0.0.0
EXPOSE 8470
USER worker
# One state volume per replica. /tmp holds sockets and, in the landlock tier, workspaces; never share it between replicas.
VOLUME ["/var/lib/python-execute", "/tmp"]
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["node", "/app/healthcheck.mjs"]
# As PID 1 node would not reap what it did not start, and the kernel would ignore signals without a handler.
# A smaller nursery for new objects than node's own: about 10 MB less memory, as the worker makes few of them.
ENTRYPOINT ["/usr/bin/tini", "--", "node", "--max-semi-space-size=4", "/app/dist/main.js"]
CMD ["start"]

# Last, so that another revision alone builds nothing anew.
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=unknown
ARG SOURCE=unknown
ARG RUNTIME
LABEL org.opencontainers.image.title="python-execute-worker" \
      org.opencontainers.image.description="Runs model-written Python, each call in a sandbox of its own, for an AI backend over GraphQL websockets." \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.base.name="${RUNTIME}" \
      python-execute-worker.debian-snapshot="${SNAPSHOT}" \
      org.opencontainers.image.licenses="MIT"
