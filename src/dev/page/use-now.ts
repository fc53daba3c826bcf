import { useEffect, useState } from 'preact/hooks'

const TICK_MS = 100

/** The time now, again ten times a second while `ticks`. */
export function useNow(ticks: boolean): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    setNow(Date.now())
    if (!ticks) return
    const timer = setInterval(() => setNow(Date.now()), TICK_MS)
    return () => clearInterval(timer)
  }, [ticks])
  return now
}
