/** What the page remembers over a reload, in this window alone. A browser that keeps nothing is as good. */
export const kept = {
  read(name: 'code' | 'thread'): string | null {
    try {
      return sessionStorage.getItem(name)
    } catch {
      return null
    }
  },
  write(name: 'code' | 'thread', value: string | null): void {
    try {
      if (value === null) sessionStorage.removeItem(name)
      else sessionStorage.setItem(name, value)
    } catch {
      // Full or forbidden: then it is forgotten with the page.
    }
  },
}
