// What does an error of @quiverdb/import mean at the command line?

import { isQuiverError } from "@quiverdb/client";
import { CommandError, UsageError } from "../exit-codes.ts";

/** The names of options of @quiverdb/import, and what they are called here. */
const words: readonly (readonly [option: RegExp, here: string])[] = [
  [/for the option columns\.(\w+)\./, "for --column $1=..."],
  [/the ids: columns\.id\./, "the ids: --column id=NAME."],
  [/the option ids\.field\b/, "--ids-field"],
  [/the option dimension\b/, "--dimension <n>"],
  [/the option format:/, "--format"],
  [/the format json\b/, "--format json"],
  [/the option vector\b/, "--column dense_values=NAME"],
  [/the option sparse\b/, "--column sparse_values=NAME"],
  [/the option namespace\b/, "--namespace"],
  [/the option columns\b/, "--column FIELD=COLUMN"],
  [/\bcolumns\.vector\b/, "--column dense_values=COLUMN"],
  [/\bcolumns\.sparse\b/, "--column sparse_values=COLUMN"],
  [/\bcolumns\.id\b/, "--column id=COLUMN"],
  [/\bwith omit\b/, "with --omit"],
  [/the option metric\b/, "--metric"],
];

/** An error that names options of @quiverdb/import, in those of the command line. @param Kind a failure, if something was done before */
export function inOptions(
  error: unknown,
  Kind: typeof CommandError | typeof UsageError = UsageError,
): unknown {
  if (!isQuiverError(error, "invalid_request")) return error;
  return new Kind(inWords(error), { cause: error });
}

/** An error of reading files, as a wrong use of this program or a failure. */
export const ofFiles = (error: unknown): unknown => {
  if (!isQuiverError(error)) return error;
  const Kind = error.code === "invalid_request" ? UsageError : CommandError;
  return new Kind(inWords(error), { cause: error.cause });
};

const inWords = ({ message }: Error): string =>
  words.reduce((text, [option, here]) => text.replace(option, here), message);
