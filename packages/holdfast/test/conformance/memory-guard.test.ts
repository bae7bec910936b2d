import { describe, it } from 'vitest'
import { testGuard } from '../../src/testkit/guard-suite.ts'
import { memoryHarness } from '../support/memory-guard.ts'

testGuard({ describe, it }, memoryHarness())
