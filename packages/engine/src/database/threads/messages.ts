// What do serving threads and the owner of the database tell each other?
//
//   thread -> owner   attach      a collection by its name
//                     view        of a collection, with the indexes that a search needs, and the matches of its filters
//                     release     of a view that was posted: the thread has pinned it
//                     search      what the thread cannot answer itself
//                     upsert      records that the thread has encoded
//                     delete      a record
//   owner -> thread   close       a store: the collection is about to be closed

import type { Filter } from "@quiverdb/protocol/shapes/filter";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import type { Account } from "../../base/fair-queue.ts";
import type { IndexDefinitions } from "../../collection/apply.ts";
import type { CollectionDefinition } from "../../collection/definition.ts";
import type { When } from "../../collection/history.ts";
import type { SharedBitmap } from "../../index/ordinal-bitmap.ts";
import type { SearchKind } from "../../query/plan.ts";
import type { SharedBoard } from "../../views/board.ts";
import type { SharedView } from "../../views/view.ts";
import type { WriteCondition } from "../contract.ts";

/** What a thread needs to search a collection. */
export type Attachable = {
  readonly internalId: string;
  /** Of its store. */
  readonly directory: string;
  readonly definition: CollectionDefinition;
  readonly shared: SharedWords;
  /** Whether it is one of several shards, all of which the owner searches. */
  readonly isSharded?: true;
};

/** A view as it is posted. */
export type PostedView = {
  readonly view: SharedView;
  /** The definitions of its indexes, and of those of later views on the board: an index that joins makes another shape. */
  readonly definitions: Readonly<IndexDefinitions>;
  /** Where later views of these indexes are found; undefined: nowhere, the owner is asked. */
  readonly board?: SharedBoard | undefined;
};

/** The matches of a filter. `isWarned`: there are none, and the answer to a search has warnings. */
export type PostedMatches = { readonly set: SharedBitmap; readonly isWarned: boolean };

/** A view that is pinned for a thread. */
export type AcquiredView = {
  readonly posted: PostedView;
  /** The matches of each filter. */
  readonly matching: readonly PostedMatches[];
  release(): void;
};

/** Who pays for the work of a call, and may have lost the right to it; and the key of a write that is done once. */
export type Caller = {
  readonly account: Account;
  readonly workMs: number;
  readonly idempotencyKey?: string | undefined;
};

/** `filters`: those whose matches the thread does not know, as a request could have them. */
export type ViewCall = {
  name: string;
  internalId: string;
  kinds: readonly IndexKind[];
  filters: readonly object[];
  caller: Caller;
};
/** `lease` is to be released; undefined: the name is of another collection now. */
export type ViewAnswer = ({ lease: number } & Pick<AcquiredView, "posted" | "matching">) | undefined;

/** `keyFilter`: the filter of the records that the caller sees; null: all. */
type OfCaller = { name: string; keyFilter: Filter | null; caller: Caller };
export type SearchCall = OfCaller & { kind: SearchKind; request: object; when?: When };
export type UpsertCall = OfCaller & { batch: Uint8Array; records: number; condition?: WriteCondition };
export type DeleteCall = OfCaller & { id: string; condition?: WriteCondition };

// ---- What do serving threads know of a collection without asking its owner?
//
// The version that every new read must see, and the owner learns that they search. One thread writes the version; all count searches.

/** Shared memory; can be posted. */
type SharedWords = BigInt64Array<SharedArrayBuffer>;

const seenAt = 0;
const searchesAt = 1;

export class SharedState {
  readonly words: SharedWords;

  /** @param words of the owner; absent: of a new collection */
  constructor(words: SharedWords = new BigInt64Array(new SharedArrayBuffer(16))) {
    this.words = words;
  }

  /** The newest version that was acknowledged or returned to any client. */
  get seenVersion(): number {
    return Number(Atomics.load(this.words, seenAt));
  }

  set seenVersion(version: number) {
    Atomics.store(this.words, seenAt, BigInt(version));
  }

  /** Searches that serving threads have begun. */
  get searchesElsewhere(): number {
    return Number(Atomics.load(this.words, searchesAt));
  }

  countSearch(): void {
    Atomics.add(this.words, searchesAt, 1n);
  }
}
