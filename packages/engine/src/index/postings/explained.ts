// How many terms are explained per step?
//
// Each term is looked up in each of the records; this number of look-ups takes some milliseconds.

const lookUpsPerStep = 16_384;

/** Terms of a step, at least 1. @param records that are explained */
export function explainedTermsPerStep(records: number): number {
  return Math.max(1, Math.floor(lookUpsPerStep / Math.max(1, records)));
}
