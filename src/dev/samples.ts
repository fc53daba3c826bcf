/** One call of the demo, and what has to come back for it to count. */
export interface Sample {
  readonly title: string
  readonly code: string
  readonly expectedStatus: 'completed' | 'failed'
  /** Must occur in the result. */
  readonly expectedTexts: readonly string[]
  /** How many deltas must come, spread over how many ms: output that came all at once at the end was not streamed. */
  readonly expectedStream: { readonly deltas: number; readonly overMs: number } | null
}

const PROGRESS = `import time

for step in range(1, 6):
    print(f"step {step} of 5")
    time.sleep(0.4)
`

const COMPUTATION = `try:
    import pandas
except ImportError:
    pandas = None

sales = [("north", 120), ("south", 80), ("north", 45), ("west", 200), ("south", 15)]

if pandas:
    print("added up by pandas", pandas.__version__)
    totals = pandas.DataFrame(sales, columns=["region", "amount"]).groupby("region")["amount"].sum().to_dict()
else:
    print("added up by the standard library (pandas is not installed)")
    totals = {}
    for region, amount in sales:
        totals[region] = totals.get(region, 0) + amount

totals
`

const FAILURE = `def average(values):
    return sum(values) / len(values)

print("the average of three:", average([3, 4, 5]))
print("the average of none:", average([]))
`

export const SAMPLES: readonly Sample[] = [
  {
    title: 'Progress, streamed while the code runs',
    code: PROGRESS,
    expectedStatus: 'completed',
    expectedTexts: ['step 1 of 5', 'step 5 of 5'],
    expectedStream: { deltas: 4, overMs: 1000 },
  },
  {
    title: 'A computation; the last expression is shown as in a notebook',
    code: COMPUTATION,
    expectedStatus: 'completed',
    expectedTexts: ["{'north': 165, 'south': 95, 'west': 200}"],
    expectedStream: null,
  },
  {
    title: 'A failing script (it is meant to fail)',
    code: FAILURE,
    expectedStatus: 'failed',
    expectedTexts: ['the average of three: 4.0', 'line 2', 'ZeroDivisionError'],
    expectedStream: null,
  },
]
