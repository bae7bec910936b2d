/**
 * `campaign`: so many prizes, and eight pods that give them out, one at a time: read how many are
 * left, look after the winner, write one less and the winner's name. Now and then a pod stands
 * still for longer than its lock lives.
 *
 * One campaign an arm, and one prize for each time that the lock is held. The pods' pauses are part
 * of the figures: prizes per second are those of a campaign in which that happens.
 */
import type { TrialArm, TrialScenario } from '../../trial.ts'
import type { Ground } from '../ground/ground.ts'
import { checkCampaign } from './check.ts'
import { campaignIn } from './organiser.ts'
import { givePrizesOn } from './pod.ts'

/**
 * What the story promises. A short run has fewer and says so in its `limit`: ten for each of the
 * first hundred rounds, which takes a minute, and more for each further one.
 */
const PRIZES_MAX = 10_000
const SHORT = { rounds: 100, prizesPerRound: 10 }
const PRIZES_PER_FURTHER_ROUND = 30

const armsOn = (ground: Ground): readonly TrialArm[] => [
  {
    name: 'no lock',
    protected: false,
    claim: 'more prizes are given out than there are, though nobody pauses',
    run: (trial) => campaignIn(trial, ground),
  },
  {
    name: 'lock only',
    protected: false,
    claim: 'more prizes are given out than there are: the lock does not help a pod that pauses',
    run: (trial) => campaignIn(trial, ground),
  },
  {
    name: 'lock + guard',
    protected: true,
    claim: 'exactly as many prizes are given out as there are, each of them once',
    run: (trial) => campaignIn(trial, ground),
  },
]

export const campaignOn = (ground: Ground): TrialScenario => ({
  kind: 'trials',
  name: 'campaign',
  claim:
    'Eight pods give out more prizes than there are, without a lock and with one when a pod ' +
    'pauses past its TTL; with lock and guard exactly as many as there are.',
  servers: ground.serversFor.wallets,
  arms: armsOn(ground),
  metrics: [
    { key: 'granted', title: 'prizes\ngranted' },
    { key: 'limit', title: 'limit' },
    { key: 'refusedWrites', title: 'refused\nby store' },
    { key: 'perSecond', title: 'prizes\na second' },
  ],
  armsAtOnce: 1,
  armMsMax: 1_200_000,
  plan: (rounds) => ({ rounds: 1, size: prizesFor(rounds) }),
  programs: { givePrizes: givePrizesOn(ground) },
  check: checkCampaign,
})

function prizesFor(rounds: number): number {
  const short = Math.min(rounds, SHORT.rounds) * SHORT.prizesPerRound
  const further = Math.max(0, rounds - SHORT.rounds) * PRIZES_PER_FURTHER_ROUND
  return Math.min(PRIZES_MAX, short + further)
}
