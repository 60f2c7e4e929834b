// Which states are allowed after a crash?
//
// A ledger records what clients requested and what was acknowledged. Every id belongs to one client, and a client has one request at a
// time. So a client's part of a collection has a linear history of states, of which at most the last is requested but not acknowledged.
// After a crash the part is, as a whole, in the last acknowledged state or in the requested one after it. The state that is found is
// *settled*: it is the only possible one from then on, and nothing that was lost may reappear.
//
// Moments are increasing numbers: the kill campaigns count, the power loss campaign uses positions in the log of writes.

import type { MetadataIndex } from "@quiverdb/protocol/shapes/index-definition";
import type { ModelRecord } from "../../model.ts";

export type Metric = "cosine" | "euclidean" | "dot_product";

/** A record as it was sent, and the text that is expected when it is read. */
export type Written = { readonly record: ModelRecord; readonly canonical: string };

export type IndexState = {
  dense?: Metric;
  sparse?: true;
  text?: { k1: number; b: number };
  /** Types of declared fields of the metadata. */
  fields?: Readonly<Record<string, MetadataIndex["type"]>>;
};

export type OpenTransaction = {
  /** Null if the response was lost. */
  readonly id: string | null;
  /** What a commit applies: id -> record, null for a delete. */
  readonly staged: ReadonlyMap<string, Written | null>;
  /** Operations sent; an id that was sent twice counts twice [T12]. They tell whether a call without a response happened. */
  readonly upserts: number;
  readonly deletes: number;
};

/** The state of a client's part of a collection; the owner's part also has the transaction and the indexes. */
export type PieceState = {
  /** Counts the successive collections of one name, so that their versions are not mixed up. */
  readonly incarnation: number;
  readonly records: ReadonlyMap<string, Written>;
  readonly transaction: OpenTransaction | null;
  readonly indexes: IndexState;
};

/** Null: the collection does not exist. */
export type State = PieceState | null;

type Step = { state: State; issuedAt: number; acknowledgedAt: number; readonly makesVersion: boolean };

type PieceDump = { collection: string; client: number; isOwner: boolean; steps: Step[] };

/** A moment after all others. */
export const end = Number.MAX_VALUE;
const never = Number.POSITIVE_INFINITY;

export class Piece {
  readonly collection: string;
  readonly client: number;
  readonly isOwner: boolean;
  #steps: Step[];

  constructor(collection: string, client: number, isOwner: boolean, state: State) {
    this.collection = collection;
    this.client = client;
    this.isOwner = isOwner;
    this.#steps = [{ state, issuedAt: -1, acknowledgedAt: -1, makesVersion: false }];
  }

  /** The state after all requests. */
  get state(): State {
    return (this.#steps.at(-1) as Step).state;
  }

  /**
   * Requests a change. If `act` throws, the change may or may not have happened.
   * @param told the resulting state, if the response contains more than was known
   */
  async attempt(
    clock: () => number,
    next: State,
    makesVersion: boolean,
    act: () => Promise<void>,
    told: () => State = () => next,
  ): Promise<void> {
    const step: Step = { state: next, issuedAt: clock(), acknowledgedAt: never, makesVersion };
    this.#steps.push(step);
    await act();
    step.state = told();
    step.acknowledgedAt = clock();
  }

  /** The pending change, if there is one, was rejected: it did not happen and never will. */
  refuse(): void {
    if (this.#steps.at(-1)?.acknowledgedAt === never) this.#steps.pop();
  }

  /** Whether the creation of the collection is still pending. */
  get isBeingCreated(): boolean {
    const [before, last] = this.#steps.slice(-2);
    return last?.acknowledgedAt === never && before.state === null;
  }

  /** The states that are possible at a moment, and how many versions of its collection were created since. */
  candidates(moment = end): { state: State; versions: number }[] {
    let least = 0;
    let most = 0;
    for (const [i, { issuedAt, acknowledgedAt }] of this.#steps.entries()) {
      if (acknowledgedAt <= moment) least = i;
      if (issuedAt < moment) most = i;
    }
    const versions = (upTo: number) => {
      const { incarnation } = this.#steps[upTo].state ?? {};
      const made = this.#steps.slice(1, upTo + 1).filter(({ makesVersion }) => makesVersion);
      return made.filter(({ state }) => state?.incarnation === incarnation).length;
    };
    const found = [];
    for (let i = least; i <= most; i++) found.push({ state: this.#steps[i].state, versions: versions(i) });
    return found;
  }

  /** The serialisable form of a part. */
  dump(): PieceDump {
    const { collection, client, isOwner } = this;
    return { collection, client, isOwner, steps: this.#steps };
  }

  static of({ collection, client, isOwner, steps }: PieceDump): Piece {
    const piece = new Piece(collection, client, isOwner, null);
    piece.#steps = steps;
    return piece;
  }

  copy(): Piece {
    const copy = new Piece(this.collection, this.client, this.isOwner, null);
    copy.#steps = [...this.#steps];
    return copy;
  }

  /** Takes what was settled on a copy. */
  adopt(copy: Piece): void {
    this.#steps = copy.#steps;
  }

  settle(state: State): void {
    this.#steps = [{ state, issuedAt: -1, acknowledgedAt: -1, makesVersion: false }];
  }
}

export type SeenVersion = { hash: string; count: number; at: number };

/** The observed versions of one collection; they must not change. */
export class VersionBook {
  /** The version at the last settlement. */
  base = 0;
  readonly seen = new Map<number, SeenVersion>();

  /** @throws if the number was seen with another hash or count */
  note(number: number, hash: string, count: number, at: number): void {
    const before = this.seen.get(number);
    if (before && (before.hash !== hash || before.count !== count))
      throw new Error(
        `version ${number} was ${before.hash} with ${before.count} records and is ${hash} with ${count}`,
      );
    if (!before) this.seen.set(number, { hash, count, at });
  }
}

/** The serialisable form of a ledger (for v8.serialize). */
export type LedgerState = {
  pieces: PieceDump[];
  books: [string, { base: number; seen: ReadonlyMap<number, SeenVersion> }][];
  ended: Ledger["ended"];
};

export class Ledger {
  readonly pieces: Piece[] = [];
  readonly #books = new Map<string, VersionBook>();
  /** Transactions whose end was acknowledged: collection and incarnation -> id -> how it ended, and when. */
  readonly ended = new Map<string, Map<string, { how: "committed" | "aborted"; at: number }>>();
  #ticks = 0;
  clock: () => number = () => ++this.#ticks;

  state(): LedgerState {
    return {
      pieces: this.pieces.map((piece) => piece.dump()),
      books: [...this.#books].map(([key, { base, seen }]) => [key, { base, seen }]),
      ended: this.ended,
    };
  }

  static of({ pieces, books, ended }: LedgerState): Ledger {
    const ledger = new Ledger();
    for (const piece of pieces) ledger.pieces.push(Piece.of(piece));
    for (const [key, { base, seen }] of books) {
      const book = new VersionBook();
      book.base = base;
      for (const [number, version] of seen) book.seen.set(number, version);
      ledger.#books.set(key, book);
    }
    for (const [key, ends] of ended) ledger.ended.set(key, ends);
    return ledger;
  }

  /** A copy, which can be settled differently. */
  copy(): Ledger {
    const copy = new Ledger();
    for (const piece of this.pieces) copy.pieces.push(piece.copy());
    for (const [key, { base, seen }] of this.#books) {
      const book = new VersionBook();
      book.base = base;
      for (const [number, version] of seen) book.seen.set(number, version);
      copy.#books.set(key, book);
    }
    for (const [key, ended] of this.ended) copy.ended.set(key, ended);
    return copy;
  }

  /** Takes what was settled on a copy. */
  adopt(copy: Ledger): void {
    for (const [i, piece] of this.pieces.entries()) piece.adopt(copy.pieces[i]);
    for (const [key, book] of copy.#books) this.#books.set(key, book);
  }

  piece(collection: string, client: number, isOwner: boolean, state: State): Piece {
    const piece = new Piece(collection, client, isOwner, state);
    this.pieces.push(piece);
    return piece;
  }

  of(collection: string): Piece[] {
    return this.pieces.filter((piece) => piece.collection === collection);
  }

  get collections(): string[] {
    return [...new Set(this.pieces.map(({ collection }) => collection))];
  }

  versions(collection: string, incarnation: number): VersionBook {
    const key = `${collection} ${incarnation}`;
    let book = this.#books.get(key);
    if (!book) {
      book = new VersionBook();
      this.#books.set(key, book);
    }
    return book;
  }

  noteEnd(collection: string, incarnation: number, id: string, how: "committed" | "aborted"): void {
    const key = `${collection} ${incarnation}`;
    const ended = this.ended.get(key) ?? new Map();
    ended.set(id, { how, at: this.clock() });
    this.ended.set(key, ended);
  }
}

/** The comparable text of a record, made from what was sent or from what was read. */
export function canonical(record: ModelRecord): string {
  const values = record.sparse_values as (number | [number, number])[] | null | undefined;
  const pairs = values?.map((value, i) =>
    Array.isArray(value) ? value : [record.sparse_indices?.[i], value],
  );
  pairs?.sort((a, b) => (a[0] as number) - (b[0] as number));
  return JSON.stringify([
    record.id,
    record.document_id ?? null,
    record.dense_values ?? null,
    pairs ?? null,
    record.text ?? null,
    record.metadata ?? null,
  ]);
}
