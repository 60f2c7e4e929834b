// Do the transactions, the staged operations of the open one, and the head agree?

import type { Finding } from "@quiver/protocol/shapes/check";
import { readU32Key, readU53, text, toHex } from "../base/bytes.ts";
import type { Head } from "./head.ts";
import { readOperations } from "./record.ts";
import { decodeStagedId } from "./staging.ts";
import type { TransactionEntry } from "./transaction.ts";

const unread = "not read";
const states = ["open", "committed", "aborted", "failed"];

export class TransactionCheck {
  readonly #find: (finding: Finding) => void;
  readonly #entries = new Map<number, TransactionEntry>();
  /** By position: the id in hex and the kind of the operation. */
  readonly #staged = new Map<number, string>();
  readonly #stagedIds = new Map<number, string>();
  readonly #indexed: number[] = [];

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
    const sequence = key.length === 8 ? readU53(key) : -1;
    if (entry.sequence !== sequence || !String(entry.id).startsWith(`${sequence.toString(36)}-`))
      this.#bad(
        `The transaction '${entry.id}' is stored under the number ${sequence}, which is not its own.`,
        key,
      );
    if (!states.includes(entry.state)) this.#bad(`The transaction '${entry.id}' is '${entry.state}'.`, key);
    this.#entries.set(sequence, entry);
  }

  /** Notes the position of a staged operation without reading its value. */
  note(key: Uint8Array): void {
    if (key.length === 4) this.#staged.set(readU32Key(key), unread);
  }

  staged(key: Uint8Array, body: Uint8Array): void {
    const position = key.length === 4 ? readU32Key(key) : -1;
    try {
      const operations = [...readOperations(body)];
      if (operations.length !== 1 || position < 0)
        this.#bad(
          `Position ${position} has ${operations.length} operations; expected is one.`,
          key,
          "staged",
        );
      else this.#staged.set(position, `${operations[0].kind} ${toHex(operations[0].id)}`);
    } catch (error) {
      this.#bad(
        `The operation of position ${position} cannot be read: ${(error as Error).message}`,
        key,
        "staged",
      );
    }
  }

  stagedId(key: Uint8Array, body: Uint8Array): void {
    if (body.length !== 6) {
      this.#bad("A staged id has no position.", key, "stagedIds");
      return;
    }
    const { position, kind } = decodeStagedId(body);
    if (this.#stagedIds.has(position))
      this.#bad(`Position ${position} is that of two staged ids.`, key, "stagedIds");
    this.#stagedIds.set(position, `${kind} ${toHex(key)}`);
  }

  /** When a transaction was indexed. */
  indexed(key: Uint8Array, body: Uint8Array): void {
    if (key.length === 8 && body.length === 8) this.#indexed.push(readU53(key));
    else this.#bad("The time at which a transaction was indexed cannot be read.", key, "indexed");
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
    for (let position = 0; position < expected; position++) {
      const [operation, id] = [this.#staged.get(position), this.#stagedIds.get(position)];
      const isSame = operation === id || (operation === unread && id !== undefined);
      if (operation === undefined || !isSame)
        this.#bad(
          `Position ${position} of the open transaction has the operation ${operation ?? "none"}, and the id's entry ${id ?? "none"}.`,
        );
    }
    if (this.#staged.size !== expected || this.#stagedIds.size !== expected)
      this.#bad(
        `${this.#staged.size} operations are staged under ${this.#stagedIds.size} ids; expected are ${expected}.`,
      );
  }
}
