export interface Example {
  readonly name: string
  readonly title: string
  readonly code: string
}

const PLOT = `import numpy as np
import matplotlib.pyplot as plt

t = np.linspace(0, 4 * np.pi, 500)
fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for damping in (4, 8, 16, 32):
    ax.plot(t, np.exp(-t / damping) * np.cos(2 * t), label=f"damping {damping}")
ax.set(title="Damped oscillation", xlabel="time", ylabel="amplitude")
ax.legend()
ax.grid(alpha=0.3)
plt.show()
`

/** Where there is no matplotlib: a picture of nothing but the standard library. */
const PICTURE = `# matplotlib is not installed here: a picture with the standard library alone.
import struct, zlib
from IPython.display import Image

WIDTH, HEIGHT = 480, 320

def pixel(x, y):
    c = complex(3.2 * x / WIDTH - 2.2, 2.2 * y / HEIGHT - 1.1)
    z, n = 0j, 0
    while abs(z) < 2 and n < 40:
        z, n = z * z + c, n + 1
    shade = 255 - round(255 * n / 40)
    return bytes((shade // 2, shade, 255 if n < 40 else 0))

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

rows = b"".join(b"\\0" + b"".join(pixel(x, y) for x in range(WIDTH)) for y in range(HEIGHT))
png = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0))
Image(data=png + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
`

const STREAM = `import time

for step in range(1, 21):
    print(f"\\033[32mstep {step:2}\\033[0m of 20  {'█' * step}{'░' * (20 - step)}")
    time.sleep(0.25)
print("done")
`

const TABLE = `import pandas as pd

sales = pd.DataFrame({
    "region": ["north", "south", "north", "west", "south", "west"],
    "quarter": ["Q1", "Q1", "Q2", "Q1", "Q2", "Q2"],
    "amount": [1200.5, 800, 450.25, 2000, 150, 975.75],
})
sales.to_csv("sales.csv", index=False)
sales.pivot_table(index="region", columns="quarter", values="amount", aggfunc="sum", margins=True)
`

const FAILURE = `def average(values):
    return sum(values) / len(values)

print("the average of three:", average([3, 4, 5]))
print("the average of none:", average([]))
`

const APPROVAL = `# A tool that asks: a person has to approve this script before it runs.
tools.files.write_file(path="note.txt", content="The meeting is on Monday.\\n")
tools.files.patch(path="note.txt", old_string="Monday", new_string="Tuesday")
print(tools.files.read_file(path="note.txt")["content"])
`

/** The first is what a person sees who comes for the first time. `worker`: the line about it, which names the libraries that it has. */
export function examplesFor(worker: string | null): readonly Example[] {
  const hasPlots = worker === null || worker.includes('matplotlib')
  return [
    hasPlots
      ? { name: 'plot', title: 'Plot', code: PLOT }
      : { name: 'plot', title: 'Picture (no matplotlib here)', code: PICTURE },
    { name: 'stream', title: 'Streamed output', code: STREAM },
    { name: 'table', title: 'Table and a file', code: TABLE },
    { name: 'error', title: 'Error', code: FAILURE },
    { name: 'approval', title: 'Asks for approval', code: APPROVAL },
  ]
}
