import { type Attack, type Ending, NAMESPACES } from '../support/attack.js'

/** Held by a limit that the code gets an error from, or ended: both are right, to be let through is not. */
const HELD: Ending = {
  status: ['completed', 'failed', 'limit_exceeded', 'out_of_memory'],
  stdout: /^(tried\n)?$/,
}

/** What the kernel keeps for a process, and counts for none. */
export const kernelMemory: readonly Attack[] = [
  {
    name: 'memory that waits in sockets',
    tiers: NAMESPACES,
    code: `block = b"x" * 65536
for _ in range(10):
    if os.fork() == 0: break
held = []
while True:
    try: pair = socket.socketpair()
    except OSError: break
    for one in pair:
        one.setblocking(False)
        held.append(one)
        try:
            while True: one.send(block)
        except OSError: pass
time.sleep(0.5)
print("tried") if os.getpid() == 2 else os._exit(0)`,
    ends: HELD,
  },
  {
    name: 'larger buffers for sockets',
    code: `for one in socket.socketpair():
    for option in (7, 8, 32, 33, 72):  # SO_SNDBUF, SO_RCVBUF, both by force, SO_BUF_LOCK
        answer = raw(NR["setsockopt"], one.fileno(), 1, option, ctypes.create_string_buffer(struct.pack("i", 1 << 26)), 4)
        if answer != "EPERM": escaped(option, answer)
print("tried")`,
  },
  {
    name: 'memory that waits in TCP connections which nobody has accepted, and in closed ones',
    tiers: NAMESPACES,
    code: `block = b"x" * 65536
for _ in range(10):
    if os.fork() == 0: break
server = socket.create_server(("127.0.0.1", 0), backlog=1000)
held = []
for n in range(900):
    try: one = socket.create_connection(server.getsockname(), 0.2)
    except OSError: break
    one.setblocking(False)
    try:
        while True: one.send(block)
    except OSError: pass
    if n % 2: held.append(one)
    else: one.close()
time.sleep(0.5)
print("tried") if os.getpid() == 2 else os._exit(0)`,
    ends: HELD,
  },
  {
    name: 'memory that waits in sockets within sockets',
    code: `pair = socket.socketpair()
held = [pair]
for one in pair: one.setblocking(False)
sent = 0
try:
    for _ in range(2000):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            while True: ours.send(b"x" * 65536)
        except OSError: pass
        socket.send_fds(pair[0], [b"x"], [ours.fileno(), theirs.fileno()])
        ours.close(); theirs.close()
        sent += 1
except OSError: pass
if sent > 400: escaped(sent)
print("tried")`,
    ends: HELD,
  },
  {
    name: 'memory that waits in pipes',
    code: `import fcntl
held = []
try:
    while True:
        ours, theirs = os.pipe()
        held.append(theirs)
        try: fcntl.fcntl(theirs, 1031, 1 << 20); escaped("a larger pipe")
        except OSError: pass
        os.set_blocking(theirs, False)
        try:
            while True: os.write(theirs, bytes(65536))
        except OSError: pass
except OSError: pass
print("tried")`,
  },
  {
    name: 'signals and timers that wait in the kernel',
    code: `made, event, place = 0, ctypes.create_string_buffer(struct.pack("QiiI", 0, 10, 1, 0), 64), ctypes.create_string_buffer(8)
while made < 20000 and raw(NR["timer_create"], 1, event, place) == "allowed": made += 1
if made > 10000: escaped(made, "timers")
print("tried")`,
  },
  {
    name: 'open files beyond their number',
    code: `held = []
for _ in range(400): held.append(os.open("/dev/null", os.O_RDONLY))
escaped(len(held))`,
    ends: { status: 'failed', limit: 'open_files', stdout: '' },
  },
]
