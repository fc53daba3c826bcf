# Builds with the classic builder and with BuildKit alike.
#
#   docker build -t python-execute-worker .
#
# BASE builds and gives its node binary; RUNTIME is what the worker runs on. Both have to be of the same Debian release.
ARG BASE=node:24-trixie-slim
ARG RUNTIME=debian:trixie-slim

FROM ${BASE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY tsconfig.json tsconfig.build.json ./
COPY scripts scripts
COPY src src
RUN npm run --silent build

FROM ${BASE} AS production
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev

FROM ${RUNTIME}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="python-execute-worker" \
      org.opencontainers.image.description="Runs model-written Python, each call in a sandbox of its own, for an AI backend over GraphQL websockets." \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="MIT"

# What sandboxed code finds installed, from Debian: security updates come with the image's, and nothing is compiled here.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      tini libstdc++6 libatomic1 fonts-dejavu-core \
      python3 python3-numpy python3-pandas python3-matplotlib python3-scipy python3-sympy \
      python3-openpyxl python3-lxml python3-pil python3-tabulate python3-dateutil python3-requests python3-bs4 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log

RUN groupadd --system --gid 10001 worker \
 && useradd --system --uid 10001 --gid worker --home-dir /var/lib/python-execute --shell /usr/sbin/nologin worker \
 && install -d -o worker -g worker -m 0700 /var/lib/python-execute

COPY --from=build /usr/local/bin/node /usr/local/bin/node
WORKDIR /app
COPY --from=production /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY package.json LICENSE README.md .env.example ./

ENV NODE_ENV=production \
    STATE_DIR=/var/lib/python-execute \
    SANDBOX_PYTHON=/usr/bin/python3
USER worker
# One state volume per replica. /tmp holds sockets and, in the landlock tier, workspaces; never share it between replicas.
VOLUME ["/var/lib/python-execute", "/tmp"]
# As PID 1 node would not reap what it did not start, and the kernel would ignore signals without a handler.
ENTRYPOINT ["/usr/bin/tini", "--", "node", "/app/dist/main.js"]
CMD ["start"]
