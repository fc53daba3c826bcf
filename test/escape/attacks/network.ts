import { type Attack, NAMESPACES } from '../support/attack.js'

export const network: readonly Attack[] = [
  {
    name: 'TCP to a service on the loopback',
    code: 'attempt(lambda: socket.create_connection(("127.0.0.1", BAIT["tcp"]), 1))\nprint("tried")',
  },
  {
    name: 'TCP to every port of the loopback below 1024',
    code: `for port in (22, 25, 53, 80, 111, 443, 631, 873):
    attempt(lambda: socket.create_connection(("127.0.0.1", port), 0.2), port)
print("tried")`,
  },
  {
    name: 'UDP to a service on the loopback',
    code: `def send():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", BAIT["udp"]))
try: send()
except OSError: pass
print("tried")`,
  },
  {
    name: 'UDP and TCP to the internet, the metadata service and private networks',
    code: `for address in ("1.1.1.1", "169.254.169.254", "10.0.0.1", "192.168.0.1", "172.17.0.1", "224.0.0.1", "255.255.255.255"):
    def connect(kind):
        s = socket.socket(socket.AF_INET, kind)
        s.settimeout(0.3)
        s.connect((address, 53))
    attempt(lambda: connect(socket.SOCK_DGRAM), "udp", address)
    attempt(lambda: connect(socket.SOCK_STREAM), "tcp", address)
print("tried")`,
  },
  {
    name: 'IPv6 to the outside',
    code: `for address in ("2606:4700:4700::1111", "fe80::1%lo", "ff02::1"):
    def connect():
        s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        s.connect((address, 53))
    try: attempt(connect, address)
    except socket.gaierror: pass
print("tried")`,
  },
  {
    name: 'names: the resolver',
    code: 'attempt(lambda: socket.getaddrinfo("example.com", 80))\nprint("tried")',
  },
  {
    name: 'a pathname socket of a service',
    code: `def connect():
    socket.socket(socket.AF_UNIX).connect(BAIT["folder"] + "/stream.sock")
attempt(connect)
print("tried")`,
  },
  {
    name: 'a pathname datagram socket: by sendto, sendmsg and sendmmsg from every socket there is',
    code: `path = BAIT["folder"] + "/datagram.sock"
def sockets():
    for make in (lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), *(lambda k=k: socket.socketpair(socket.AF_UNIX, k)[0] for k in (socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET))):
        try: yield make()
        except OSError: pass
for s in sockets():
    attempt(lambda: s.connect(path))
for s in sockets():
    for action in (lambda: s.sendto(b"x", path), lambda: s.sendmsg([b"x"], [], 0, path)):
        try: action()
        except OSError: pass
print("tried")`,
  },
  {
    name: 'an abstract socket of a service',
    code: `def connect():
    socket.socket(socket.AF_UNIX).connect("\\0" + BAIT["mark"] + "-stream")
attempt(connect)
print("tried")`,
  },
  {
    name: 'an abstract datagram socket of a service',
    code: `def send():
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "\\0" + BAIT["mark"] + "-datagram")
attempt(send)
print("tried")`,
  },
  {
    name: "the worker's own socket, by path",
    code: `def connect():
    socket.socket(socket.AF_UNIX).connect(BAIT["worker_socket"])
attempt(connect)
attempt(lambda: os.open(BAIT["worker_socket"], os.O_RDWR), "open")
attempt(lambda: os.listdir(os.path.dirname(BAIT["worker_socket"])), "list")
print("tried")`,
  },
  {
    name: 'packet, raw, ping, vsock, alg, netlink, SCTP, MPTCP, SMC, XDP, Bluetooth, CAN, TIPC, RDS, QRTR sockets',
    code: `for family, kind, protocol in ((17, 3, 0x300), (17, 2, 0x300), (2, 3, 1), (2, 3, 255), (2, 2, 1), (10, 3, 58), (40, 1, 0), (38, 5, 0), (16, 3, 0), (16, 3, 15), (16, 2, 9), (2, 1, 132), (2, 1, 262), (2, 1, 256), (43, 1, 0), (44, 3, 0), (31, 3, 1), (29, 3, 1), (30, 1, 0), (21, 5, 0), (42, 2, 0), (2, 2, 136), (1 << 32 | 16, 3, 0)):
    answer = raw(NR["socket"], family, kind, protocol)
    if answer not in ("EPERM", "ENOSYS"): escaped(family, kind, protocol, answer)
print("tried")`,
  },
  {
    name: 'socket options that load programs or TLS into the kernel, or make closing wait',
    code: `ours, theirs = socket.socketpair()
for level, option in ((1, 13), (1, 26), (1, 49), (1, 50), (1, 51), (1, 52), (1, 12 | 1 << 32), (6, 31), (6, 13), (0, 64), (41, 64), (282, 1), (263, 5)):
    answer = raw(NR["setsockopt"], ours.fileno(), level, option, ctypes.create_string_buffer(64), 16)
    if (level, option) != (1, 12 | 1 << 32) and answer not in ("EPERM", "ENOSYS"): escaped(level, option, answer)
print("tried")`,
  },
  {
    name: 'network devices: up, down, addresses, bridges, tunnels',
    code: `import fcntl
ours, theirs = socket.socketpair()
for request in (0x8914, 0x8916, 0x8924, 0x89A0, 0x400454CA, 0x8946, 0x8B00, 0x890B):
    attempt(lambda: fcntl.ioctl(ours, request, bytearray(64)), hex(request))
attempt(lambda: os.open("/dev/net/tun", os.O_RDWR))
print("tried")`,
  },
  {
    name: "the host's network interfaces by /proc and /sys",
    code: `for path in ("/proc/net/dev", "/proc/self/net/dev", "/sys/class/net"):
    try: text = open(path).read() if "proc" in path else " ".join(os.listdir(path))
    except OSError: continue
    if any(word in text for word in ("eth", "ens", "enp", "veth", "docker")): escaped(path)
for path in ("/proc/net/tcp", "/proc/net/unix", "/proc/self/net/unix"):
    try: text = open(path).read()
    except OSError: continue
    if BAIT["mark"] in text or f":{BAIT['tcp']:04X}" in text: escaped(path)
print("tried")`,
  },
  {
    name: "another sandbox's server on the loopback",
    tiers: NAMESPACES,
    beside: `server = socket.create_server(("127.0.0.1", 45521))
print("there", flush=True)
time.sleep(30)`,
    code: 'attempt(lambda: socket.create_connection(("127.0.0.1", 45521), 0.5))\nprint("tried")',
  },
  {
    name: "another sandbox's abstract socket",
    tiers: NAMESPACES,
    beside: `server = socket.socket(socket.AF_UNIX)
server.bind("\\0sandbox-5521")
server.listen()
print("there", flush=True)
time.sleep(30)`,
    code: `def connect():
    socket.socket(socket.AF_UNIX).connect("\\0sandbox-5521")
attempt(connect)
print("tried")`,
  },
  {
    name: 'SCM_RIGHTS: descriptors that somebody sends',
    code: `import array
for fd in range(3, 64):
    try:
        s = socket.socket(fileno=os.dup(fd))
        s.setblocking(False)
        data, rights, _, _ = s.recvmsg(16, 1024)
        if rights: escaped(fd, rights)
    except OSError: pass
print("tried")`,
  },
]
