/**
 * Says of each test that was left out why, because vitest's own reporters keep the reason to
 * themselves unless every passed test is listed too. Where the reason was said when the file was
 * loaded (a program that the machine lacks), it stands there.
 */
export default class SkipReporter {
  onTestCaseResult(testCase) {
    const { state, note } = testCase.result()
    // Without a note it was filtered out by the arguments, or its file has said why.
    if (state === 'skipped' && note !== undefined) {
      console.log(`skipped: ${testCase.fullName}: ${note}`)
    }
  }
}
