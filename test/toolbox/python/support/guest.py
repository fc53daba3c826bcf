"""Run by python3 -s -B -X utf8 -c with: the folder of the Python sources, a folder to work in, the options as JSON. Reads the
code from standard input. Stands in for warden and guest: between the test, on descriptors 3 and 4, and the code lie two real
pipes, and the code is run as it is in a sandbox."""

import json
import os
import signal
import sys
import threading

_folder, _work, _options = sys.argv[1:4]
_code = sys.stdin.buffer.read()
_to_guest, _from_guest = os.pipe(), os.pipe()
_guest = os.fork()
if _guest > 0:
    os.close(_to_guest[0])
    os.close(_from_guest[1])

    def copy(source, target):
        while data := os.read(source, 1 << 16):
            while data:
                try:
                    data = data[os.write(target, data) :]
                except OSError:
                    return
        os.close(target)

    signal.signal(signal.SIGINT, lambda *_: os.kill(_guest, signal.SIGINT))
    threading.Thread(target=copy, args=(3, _to_guest[1]), daemon=True).start()
    outward = threading.Thread(target=copy, args=(_from_guest[0], 4), daemon=True)
    outward.start()
    while True:
        try:
            _, status = os.waitpid(_guest, 0)
            break
        except InterruptedError:
            pass
    outward.join(2)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)

_high = [os.dup(fd) for fd in (_to_guest[0], _from_guest[1])]
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
for _target, _fd in enumerate(_high, 3):
    os.dup2(_fd, _target, inheritable=False)
os.closerange(5, 64)

_GUEST = """
def take_over(given, ours):
    import os, tempfile, types
    from . import execute, leaving, surroundings
    from .toolbox import install
    surroundings.prepare("/usr/bin")
    leaving.forget_machinery()
    ours.retire()
    work = given["work"]
    places = types.SimpleNamespace(work=work, code=work + "/../code", home=work, tmp=work, own_tree=False)
    os.chdir(work)
    surroundings.settle(places)
    if given["options"] is not None:
        install.install(3, 4, {"work": work, **given["options"]})
    execute.run(given["code"], places, 4)
"""
_sources = {"renewal": _GUEST}
for _package, _prefix in (("core", ""), ("toolbox", "toolbox.")):
    for _name in os.listdir(f"{_folder}/{_package}"):
        if _name.endswith(".py"):
            with open(f"{_folder}/{_package}/{_name}", encoding="utf-8") as _file:
                _sources.setdefault(_prefix + _name[:-3], _file.read())
_given = {"sources": _sources, "work": _work, "options": json.loads(_options), "code": _code}
with open(f"{_folder}/boot.py", encoding="utf-8") as _file:
    _boot = compile(_file.read(), "<sandbox>/boot.py", "exec")
exec(_boot, {"__name__": "__main__", "_given": _given})
