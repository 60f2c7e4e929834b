// How are rejected lines reported?
//
// A user corrects the lines of the --rejects file and imports that file alone.
//
// Each is reported once with file, line and reason: the first ones on stderr, all of them in the --rejects file, as JSON Lines with the
// record itself, so that it can be fixed and imported again.

import { appendFileSync, writeFileSync } from "node:fs";
import type { Input } from "@quiverdb/import/files/inputs";
import { type Item, placeIn } from "@quiverdb/import/files/item";
import type { Rejected } from "./isolate.ts";

const shownMax = 20;
const keptMax = 100;

/** `line` is the number of the row, item or record where its line is not known. */
export type RejectedLine = { file: string; line: number; code: string; reason: string };

export class Rejects {
  readonly #say: (line: string) => void;
  readonly #path: string | undefined;
  /** The first ones, for the report. */
  readonly kept: RejectedLine[] = [];
  count = 0;

  /** @param resuming whether the file already has the rejected lines of the first part */
  constructor(path: string | undefined, resuming: boolean, say: (line: string) => void) {
    this.#path = path;
    this.#say = say;
    if (path !== undefined && !resuming) writeFileSync(path, "");
  }

  add({ path, unit }: Pick<Input, "path" | "unit">, rejected: readonly Rejected[]): void {
    let text = "";
    for (const { item, code, reason } of rejected) {
      this.count++;
      if (this.count <= shownMax) this.#say(`${placeIn(path, unit, item)}: rejected (${code}): ${reason}`);
      if (this.count === shownMax + 1)
        this.#say("... more lines were rejected; --rejects FILE saves all of them");
      const line = { file: path, line: item.lines?.first ?? item.number, code, reason };
      if (this.kept.length < keptMax) this.kept.push(line);
      text += rejectLine(line, item);
    }
    if (this.#path !== undefined && text !== "") appendFileSync(this.#path, text);
  }
}

/** The exact record: as `record` if it is JSON, otherwise as `raw`. */
function rejectLine(line: RejectedLine, item: Item): string {
  const start = JSON.stringify(line).slice(0, -1);
  const body =
    item.problem?.code === "invalid_json" ? `"raw":${JSON.stringify(item.json)}` : `"record":${item.json}`;
  return `${start},${body}}\n`;
}

/** A problem of the reader, in the form of a rejection by the server. */
export function rejectedByReader(item: Item): Rejected {
  return { item, code: item.problem?.code ?? "invalid_vector", reason: item.problem?.reason ?? "" };
}
