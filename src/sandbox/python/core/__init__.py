"""The Python side of the sandbox: template, zygote, warden, guest. Standard library and ctypes only."""
