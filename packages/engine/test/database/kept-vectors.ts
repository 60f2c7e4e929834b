// Which vector does a record have after a round of keeping-process.ts?

import { randomNumbers } from "@quiverdb/kernels/random";

export function vectorOf(record: number, round: number): number[] {
  const next = randomNumbers(record * 7_919 + round);
  return Array.from({ length: 8 }, () => next() - 0.5);
}
