// Do the transactions, the staged operations of the open one, and the head agree?

import { isQuiverError } from "@quiverdb/protocol/errors";
import type { Finding } from "@quiverdb/protocol/shapes/check";
import { compareBytes, readU53, text, toHex } from "../base/bytes.ts";
import type { Head } from "./head.ts";
import {
  decodeLocated,
  decodeStagedId,
  type Located,
  operationAt,
  type ReadSpool,
  type StagedId,
  spoolOperations,
} from "./staging.ts";
import type { TransactionEntry } from "./transaction.ts";

const states = ["open", "committed", "aborted", "failed"];

export class TransactionCheck {
  readonly #find: (finding: Finding) => void;
  readonly #entries = new Map<number, TransactionEntry>();
  /** By the place of an id's first operation: where the last one is, if it is another; null if the entry is damaged. */
  readonly #located = new Map<number, Located | null>();
  /** By the place of the first operation. */
  readonly #stagedIds = new Map<number, StagedId & { id: Uint8Array }>();
  readonly #indexed: number[] = [];
  /** Ids of records that the commit asks something of. */
  readonly #conditions: Uint8Array[] = [];

  constructor(find: (finding: Finding) => void) {
    this.#find = find;
  }

  #bad(message: string, key?: Uint8Array, table = "transactions"): void {
    this.#find({ kind: "transaction", table, ...(key && { key: toHex(key) }), message });
  }

  transaction(key: Uint8Array, body: Uint8Array): void {
    let entry: TransactionEntry;
    try {
      entry = JSON.parse(text(body)) as TransactionEntry;
    } catch (error) {
      this.#bad(`A transaction cannot be read: ${(error as Error).message}.`, key);
      return;
    }
    const sequence = readU53(key);
    if (entry.sequence !== sequence || !String(entry.id).startsWith(`${sequence.toString(36)}-`))
      this.#bad(
        `The transaction '${entry.id}' is stored under the number ${sequence}, which is not its own.`,
        key,
      );
    if (!states.includes(entry.state)) this.#bad(`The transaction '${entry.id}' is '${entry.state}'.`, key);
    this.#entries.set(sequence, entry);
  }

  /** Notes that there is an entry, which cannot be read. */
  note(key: Uint8Array): void {
    this.#located.set(readU53(key), null);
  }

  /** Where the last operation on an id is. */
  staged(key: Uint8Array, body: Uint8Array): void {
    this.#located.set(readU53(key), decodeLocated(body));
  }

  stagedId(key: Uint8Array, body: Uint8Array): void {
    const staged = decodeStagedId(body);
    if (this.#stagedIds.has(staged.place))
      this.#bad(`The place ${staged.place} is that of two staged ids.`, key, "stagedIds");
    this.#stagedIds.set(staged.place, { ...staged, id: key.slice() });
  }

  condition(key: Uint8Array): void {
    this.#conditions.push(key.slice());
  }

  /** A transaction was indexed. */
  indexed(key: Uint8Array): void {
    this.#indexed.push(readU53(key));
  }

  conclude(head: Head): void {
    for (const sequence of this.#indexed) {
      const state = this.#entries.get(sequence)?.state ?? "committed";
      if (state !== "committed" || sequence >= head.nextTransaction)
        this.#bad(
          `Transaction ${sequence} is noted as indexed; it was never committed.`,
          undefined,
          "indexed",
        );
    }
    const open = this.#entries.get(head.openTransaction);
    if (head.openTransaction !== 0 && open?.state !== "open")
      this.#bad(
        `The head names transaction ${head.openTransaction} as open; it is ${open?.state ?? "missing"}.`,
      );
    for (const [sequence, entry] of this.#entries) {
      if (entry.state === "open" && sequence !== head.openTransaction)
        this.#bad(`The transaction '${entry.id}' is open; the head names ${head.openTransaction || "none"}.`);
      if (sequence >= head.nextTransaction)
        this.#bad(
          `The transaction '${entry.id}' has a number that was not given yet (${head.nextTransaction} is next).`,
        );
      if (entry.version !== undefined && entry.version > head.version)
        this.#bad(
          `The transaction '${entry.id}' made version ${entry.version}; the head is at ${head.version}.`,
        );
    }
    const expected = head.openTransaction === 0 ? 0 : (open?.staged ?? 0);
    if (this.#stagedIds.size !== expected)
      this.#bad(`${this.#stagedIds.size} ids are staged; expected are ${expected}.`, undefined, "stagedIds");
    const ids = new Set(Array.from(this.#stagedIds.values(), ({ id }) => toHex(id)));
    const strange = this.#conditions.find((id) => !ids.has(toHex(id)));
    if (strange !== undefined)
      this.#bad("The commit depends on a record that is not staged.", strange, "conditions");
    const replaced = [...this.#stagedIds.values()].filter(({ isReplaced }) => isReplaced);
    const lost = replaced.find(({ place }) => !this.#located.has(place));
    if (lost !== undefined)
      this.#bad(`The last operation of a staged id is not known.`, lost.id, "stagedIds");
    if (this.#located.size !== replaced.length)
      this.#bad(
        `${this.#located.size} operations are noted to have replaced others; expected are ${replaced.length}.`,
        undefined,
        "staged",
      );
  }

  /**
   * What is wrong with the spool of the open transaction, which only its commit reads.
   * @param depth `quick` looks at its length only
   */
  spoolProblem(
    sequence: number,
    spool: { readonly sizeBytes: number | undefined; read: ReadSpool },
    depth: "quick" | "full",
  ): string | undefined {
    const expected = this.#entries.get(sequence)?.spoolBytes ?? 0;
    if (expected === 0) return undefined;
    const { sizeBytes } = spool;
    if (sizeBytes === undefined) return "The file with the operations of the open transaction is missing.";
    if (sizeBytes < expected)
      return `The file with the operations of the open transaction has ${sizeBytes} bytes; expected are ${expected}.`;
    try {
      return depth === "full"
        ? this.#operationsProblem((at, into) => spool.read(at, into), expected)
        : undefined;
    } catch (error) {
      if (isQuiverError(error, "data_corrupted")) return error.message;
      return `The operations of the open transaction cannot be read: ${(error as Error).message}`;
    }
  }

  #operationsProblem(spool: ReadSpool, spoolBytes: number): string | undefined {
    let first = 0;
    for (const { place, operation } of spoolOperations(spool, spoolBytes)) {
      const staged = this.#stagedIds.get(place);
      if (staged === undefined) continue;
      first++;
      const located = this.#located.get(place);
      if (located === null) continue;
      const last = staged.isReplaced && located !== undefined ? operationAt(spool, located) : operation;
      const isSame =
        compareBytes(operation.id, staged.id) === 0 &&
        compareBytes(last.id, staged.id) === 0 &&
        last.kind === staged.kind;
      if (!isSame)
        return `The operation at place ${place} of the open transaction is a ${last.kind} of ${toHex(last.id)}; expected is a ${staged.kind} of ${toHex(staged.id)}.`;
    }
    return first === this.#stagedIds.size
      ? undefined
      : `The open transaction has the operations of ${first} of ${this.#stagedIds.size} ids.`;
  }
}
