/** Which zygote a piece of code is best forked from: one with the preloaded libraries, or the lean one. */
export type ZygoteKind = 'lean' | 'data'

/** Libraries that import a preloaded one: code that names them gains from the data zygote as well. */
const DEPENDENTS: Readonly<Record<string, readonly string[]>> = {
  numpy: ['scipy', 'sklearn', 'statsmodels', 'xarray', 'numba', 'cv2', 'skimage', 'sympy', 'networkx', 'shapely'],
  pandas: ['seaborn', 'plotly', 'geopandas', 'statsmodels', 'openpyxl', 'pyarrow'],
  matplotlib: ['seaborn', 'pylab', 'plt'],
}

/**
 * A function from code to kind. Looks for the names of the preloaded modules as words anywhere in the code, which finds every way
 * of importing: a wrong guess costs a few milliseconds one way and an import the other, never a result.
 */
export function kindChooser(preloaded: readonly string[]): (code: string) => ZygoteKind {
  const tops = new Set(preloaded.map(name => name.split('.')[0] ?? name))
  const words = [...tops].flatMap(top => [top, ...(DEPENDENTS[top] ?? [])])
  if (words.length === 0) return () => 'lean'
  const pattern = new RegExp(`\\b(?:${words.join('|')})\\b`)
  return code => (pattern.test(code) ? 'data' : 'lean')
}
