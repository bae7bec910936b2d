import { describe, it } from 'vitest'
import { testBackend } from '../../src/testkit/backend-suite.ts'
import { openModelPair } from './redlock-clients.ts'

// The simulation of a Redlock stands on these nodes: what they lack, no schedule can find.
const open = () => openModelPair(3)
testBackend({ describe, it }, { title: 'three models of a Redis', ttlMsMin: 100, open })
