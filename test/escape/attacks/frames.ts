import { type Attack, NAMESPACES } from '../support/attack.js'

/** Every descriptor but the three streams that is open, or may come to be. */
const EVERY = 'for fd in range(3, 64):'
const FRAME = 'def frame(kind, payload): return struct.pack("<Ib", len(payload), ord(kind)) + payload\n'
const write = (what: string) => `${FRAME}${EVERY}
    try:
        os.set_blocking(fd, False)
        os.write(fd, ${what})
    except OSError: pass
print("tried")`

const json = (text: string) => write(`frame("J", b'${text}')`)

const END =
  '{"event":"end","cause":"wall","figure":1,"hint":null,"run_ms":1,"cpu_ms":0,"peak_bytes":0,"baseline_bytes":0,"peak_processes":1,"workspace_bytes":0,"workspace_files":0,"workspace_full":false,"workspace_files_full":false,"stdout_total":0,"stderr_total":0,"files":[],"files_more":0}'

export const frames: readonly Attack[] = [
  { name: 'a forged end of the run', code: json(END) },
  {
    name: 'a forged exit of the guest',
    code: json('{"event":"exit","sandbox":1,"code":null,"signal":9,"cpu_ms":0,"max_rss_bytes":0}'),
  },
  { name: 'a forged failure of the sandbox', code: json('{"event":"failed","message":"forged"}') },
  { name: 'a forged word that it is parked, started, ready', code: json('{"event":"parked"}') },
  { name: 'a forged ready with the pid of another', code: write('frame("R", struct.pack("<ii", 1, 1))') },
  { name: 'a forged word that the guest could not be locked down', code: write('frame("F", b"forged")') },
  { name: 'a forged pid, so that another is killed', code: json('{"event":"pid","pid":1}') },
  {
    name: 'forged orders: run, cancel, kill, retire, clean',
    code: `${FRAME}${EVERY}
    for order in (b'{"op":"run","wall_ms":1,"cpu_ms":1}', b'{"op":"cancel"}', b'{"op":"kill","pid":1}', b'{"op":"kill","sandbox":1}', b'{"op":"kill_zygote","zygote":1}', b'{"op":"retire"}', b'{"op":"clean","sandbox":".."}'):
        try:
            os.set_blocking(fd, False)
            os.write(fd, frame("J", order))
        except OSError: pass
print("tried")`,
  },
  {
    name: 'forged tokens of a warden and of a zygote',
    code: `${FRAME}${EVERY}
    for role in (b"warden", b"zygote"):
        try:
            os.set_blocking(fd, False)
            os.write(fd, frame("J", b'{"role":"' + role + b'","token":"' + b"0" * 64 + b'"}'))
        except OSError: pass
print("tried")`,
  },
  { name: 'forged code for another run', code: write('frame("C", b"print(1)")') },
  { name: 'forged standard output and error', code: write('frame("O", b"ESCAPED\\n") + frame("E", b"ESCAPED\\n")') },
  {
    name: 'forged tails of standard output and error',
    code: write('frame("o", b"ESCAPED\\n") + frame("e", b"ESCAPED\\n")'),
  },
  { name: 'a forged value', code: write('frame("V", b"forged")') },
  {
    name: 'forged images: cut off, of gigantic size, of no kind, of a name that is none',
    code: `${FRAME}import zlib
def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
png = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 0xffffffff, 0xffffffff, 8, 0, 0, 0, 0)) + chunk(b"IDAT", b"x") + chunk(b"IEND", b"")
${EVERY}
    for image in (b"", png, png[:20], b"\\xff\\xd8\\xff\\xc0\\x00\\x00", b"GIF89a"):
        for head in (b'{"kind":"image","name":"a"}', b'{"kind":"image","name":{"__proto__":1}}', b'{"kind":"saved","name":"a","saved":["../../etc/passwd"]}', b"{", b""):
            try:
                os.set_blocking(fd, False)
                os.write(fd, frame("D", head + b"\\n" + image))
            except OSError: pass
print("tried")`,
  },
  {
    name: 'a flood of what is shown',
    code: `${FRAME}block = frame("D", b'{"kind":"text","name":"a"}\\nx') * 1500
for fd in range(3, 8):
    try:
        for _ in range(100): os.write(fd, block)
    except OSError: pass
print("tried")`,
  },
  {
    name: 'a forged limit of a name that there is not',
    code: write('frame("L", b"wall") + frame("L", b"memory") + frame("L", bytes(64))'),
  },
  { name: 'a frame of four gibibytes that never ends', code: write('b"\\xff" * 4096') },
  {
    name: 'a frame of a mebibyte and one byte',
    code: write('struct.pack("<Ib", (1 << 20) + 1, ord("V")) + bytes(4096)'),
  },
  { name: 'a frame cut off in its header, and in its payload', code: write('b"\\x05"') },
  { name: 'frames of every type', code: write('b"".join(struct.pack("<IB", 2, kind) + b"{}" for kind in range(256))') },
  {
    name: 'JSON that is no JSON, too deep, too long, of the wrong kind',
    code: `${FRAME}${EVERY}
    for text in (b"", b"{", b"null", b"[]", b"1e999", b"[" * 9000, b'{"event":' + b'"x"' * 900 + b"}", b'{"event":{}}', b'{"__proto__":{"event":"end"}}', bytes(range(256))):
        try:
            os.set_blocking(fd, False)
            os.write(fd, frame("J", text))
        except OSError: pass
print("tried")`,
  },
  {
    name: 'a flood of frames',
    code: `${FRAME}block = frame("V", b"x" * 1000) * 60
${EVERY}
    try:
        os.set_blocking(fd, False)
        for _ in range(200): os.write(fd, block)
    except OSError: pass
print("tried")`,
  },
  {
    name: 'a flood of the smallest frames',
    code: `${FRAME}block = frame("L", b"") * 12000
${EVERY}
    try:
        os.set_blocking(fd, False)
        for _ in range(50): os.write(fd, block)
    except OSError: pass
print("tried")`,
  },
  {
    name: 'a socket that lingers, sent to the supervisor: closing it would take an hour',
    tiers: NAMESPACES,
    code: `import stat
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen(1)
ours = socket.socket(); ours.connect(server.getsockname()); theirs, _ = server.accept()
ours.setblocking(False)
try:
    while True: ours.send(b"x" * 65536)
except BlockingIOError: pass
try: ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
except OSError: pass
known = {one.fileno() for one in (server, ours, theirs)}
for fd in range(3, 64):
    try: mode = os.fstat(fd).st_mode
    except OSError: continue
    if stat.S_ISSOCK(mode) and fd not in known:
        attempt(lambda: socket.send_fds(socket.socket(fileno=os.dup(fd)), [b"\\0"], [ours.fileno()]), fd)
os.write(1, b"tried\\n")
os.kill(os.getpid(), signal.SIGKILL)`,
    ends: { status: 'crashed', signal: 'SIGKILL', stdout: 'tried\n' },
  },
  {
    name: 'the control socket shut down in both directions',
    code: `${EVERY}
    try: socket.socket(fileno=os.dup(fd)).shutdown(socket.SHUT_RDWR)
    except OSError: pass
print("tried")`,
  },
  { name: 'every descriptor closed but the output', code: 'os.closerange(3, 256)\nos.close(0)\nprint("tried")' },
  {
    name: 'the output closed and another descriptor in its place',
    code: `os.close(1)
fd = os.open("mine", os.O_CREAT | os.O_RDWR)
os.write(fd, b"ESCAPED into the output" if fd != 1 else b"into a file of its own")`,
    ends: { status: 'completed', stdout: '' },
  },
  {
    name: 'descriptors of folders, devices and sockets that lead outside',
    code: `import stat
for fd in range(1024):
    try: mode = os.fstat(fd).st_mode
    except OSError: continue
    if stat.S_ISDIR(mode) or stat.S_ISBLK(mode): escaped(fd, oct(mode))
    for path in (BAIT["folder"][1:] + "/readable", "../" * 40 + BAIT["folder"][1:] + "/readable", "etc/shadow"):
        attempt(lambda: os.close(os.open(path, os.O_RDONLY, dir_fd=fd)), fd)
print("tried")`,
  },
  {
    name: 'the sandbox’s own objects, found through the frames of the stack: descriptors and sockets of theirs',
    code: `import inspect
frame, found = inspect.currentframe(), []
while frame:
    found += [*frame.f_locals.values(), *frame.f_globals.values()]
    frame = frame.f_back
for thing in found:
    if type(thing).__name__ != "World": continue
    for fd in (thing.socket_dir, thing.outer_proc, thing.own_pid_ns):
        for name in ("self/environ", "1/environ", "w.sock"): attempt(lambda: os.open(name, os.O_PATH, dir_fd=fd), fd, name)
    attempt(thing.connect)
print("tried")`,
  },
  {
    name: 'the sandbox’s own objects: other sandboxes, tokens, and where the worker is installed',
    beside: 'print("there")\ntime.sleep(30)',
    code: `import gc
own = os.path.dirname(os.getcwd()) if os.getcwd() != "/work" else "/code"
# Said in two parts, since this text is in memory too.
needles = ["/sandbox" + "/python", "uid" + "_base", "socket" + "_dir'", "class " + "Zygote", "'tok" + "en'", 'tok' + 'en"']
def look(where, value):
    text = repr(value)[:20000]
    if own != "/code": text = text.replace(own, "")
    for needle in needles:
        if needle in text: escaped(where, needle, text[max(0, text.index(needle) - 40):][:100])
frame = sys._getframe().f_back
while frame:
    for name, value in dict(frame.f_locals).items():
        if name not in ("source", "message", "names"): look((frame.f_code.co_name, name), value)
    if frame.f_code.co_filename[:1] not in ("<",): escaped("file", frame.f_code.co_filename)
    for name in ("_here", "_file", "_given", "_ours"):
        look(("global", name), getattr(frame.f_globals.get(name), "sources", frame.f_globals.get(name)))
    frame = frame.f_back
for thing in gc.get_objects():
    kind = type(thing).__name__
    if kind == "Zygote" and (thing._guests or thing._orders): escaped(thing._guests, thing._orders)
    if kind == "Template" and (thing._wardens or thing._pids or thing._commands): escaped(vars(thing))
    if kind == "World" and thing.boot: escaped(thing.boot)
    if type(thing) is dict and ("tok" + "en") in thing and ("sand" + "box") in thing: escaped(thing)
count, words = ctypes.c_int(), ctypes.POINTER(ctypes.c_wchar_p)()
ctypes.pythonapi.Py_GetArgcArgv(ctypes.byref(count), ctypes.byref(words))
for word in words[1 : count.value]:
    if word: escaped("argument", word)
try: line = open("/proc/self/cmdline", "rb").read()
except OSError: line = b""
if line.strip(b"\\0").count(b"\\0") or b"/" in line: escaped(line[:200])
print("tried")`,
  },
]
