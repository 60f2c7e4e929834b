// How many terms are explained between two turns of others?
//
// Each is looked up in each of the records: so many look-ups take some milliseconds.

const lookUpsPerStep = 16_384;

/** Terms of a step, at least 1. @param records that are explained */
export function explainedTermsPerStep(records: number): number {
  return Math.max(1, Math.floor(lookUpsPerStep / Math.max(1, records)));
}
