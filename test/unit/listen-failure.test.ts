import { describe, expect, test } from 'vitest'
import { listenFailure } from '../../src/listen-failure.js'

const failed = (code: string, syscall = 'listen') => Object.assign(new Error(code), { code, syscall })

describe('why a server can not listen', () => {
  test.each([
    [failed('EADDRINUSE'), 'another program uses it', 'port'],
    [failed('EACCES'), 'ports below 1024 need root', 'port'],
    [failed('EADDRNOTAVAIL'), 'this machine has no such address', 'host'],
    [failed('ENOTFOUND', 'getaddrinfo'), 'this machine has no such address', 'host'],
    [failed('EPROTO'), 'EPROTO', 'port'],
  ])('%s: %s, which blames the %s', (error, why, blames) => {
    expect(listenFailure(error)).toEqual({ why, blames })
  })

  test('is nothing that another error tells', () => {
    expect(listenFailure(failed('ENOENT', 'open'))).toBeNull()
    expect(listenFailure(new Error('no'))).toBeNull()
  })
})
