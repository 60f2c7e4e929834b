// Which words and weights does a record have after a round of keeping-inverted-process.ts?
//
// Its text has two words that identify the record and the round, and some shared words; its sparse vector has the same information.

const common = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"];

export const textOf = (record: number, round: number): string =>
  `record${record} round${round} ${common.filter((_, i) => (record * 7 + round) % (i + 2) === 0).join(" ")}`;

/** Dimension 0 is common; the other one is the record's, with the round as its weight. */
export const sparseOf = (record: number, round: number): [number, number][] => [
  [0, 1 + (record % 17)],
  [1 + record, 1 + round],
];
