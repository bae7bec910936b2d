/** Why an arm is skipped that would make the bare command take longer than it may. */
export const TOO_LONG = 'it takes longer than a quick run has; --full has it'
