import type { Ending } from './attack.js'

export const OUT: Ending = { status: 'out_of_memory', limit: 'memory', stdout: '' }

/** Twice the limit of the tests and more, in mebibytes. */
export const TOO_MUCH = 360
export const WAIT = 'time.sleep(0.3)\nescaped("no limit")'

/** Two threads that change the process's mappings all the time: who asks what it has mapped waits for them, and for whoever
 * they wait for. And mappings anywhere. */
export const BUSY_LOCK = `import threading
def mapped(size, flags, address=None, rights=3):
    return libc.syscall(ctypes.c_long(NR["mmap"]), address and ctypes.c_long(address), ctypes.c_long(size), ctypes.c_long(rights), ctypes.c_long(flags), ctypes.c_long(-1), None)
def busy():
    page = mapped(8192, 0x22)
    while True:
        raw(NR["mprotect"], page, 4096, 1)
        raw(NR["mprotect"], page, 4096, 3)
def start_busy():
    for _ in range(2): threading.Thread(target=busy, daemon=True).start()
    time.sleep(0.05)
`
