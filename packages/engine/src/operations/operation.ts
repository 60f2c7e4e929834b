// What is an operation?
//
// What a caller can ask of a database, as one record: where it is over HTTP, who may call it, what it takes and gives, what it costs, how it
// is run by the engine, and examples of its body. The server's endpoints, the methods of a database in the same process, the OpenAPI
// document and the client's list of endpoints are made from these records (operations.ts). A record is pure: how a request becomes a `Call`,
// and how an answer becomes bytes, is the concern of those who run it.

import { type ErrorCode, fieldError, QuiverError } from "@quiverdb/protocol/errors";
import type { AuditList } from "@quiverdb/protocol/shapes/audit";
import type { CreateKey, KeyCreated, KeyList, Role } from "@quiverdb/protocol/shapes/key";
import type { Session } from "@quiverdb/protocol/shapes/session";
import type { VectorRecord } from "@quiverdb/protocol/shapes/vector";
import type { Static, TSchema } from "typebox";
import type { CallOptions } from "../base/deadline.ts";
import type {
  Collection,
  Database,
  LineExport,
  RestrictedDatabase,
  SnapshotFile,
  StoredVector,
  Transaction,
  When,
} from "../database/contract.ts";
import type { Parameters, ParametersOf } from "./parameters.ts";

/** Kinds of work, each of which has its own places in a server. */
export const workKinds = ["search", "write", "read", "export", "recall", "administration", "feed"] as const;
export type WorkKind = (typeof workKinds)[number];

/** Where a collection is. */
export const collectionPath = "/vectordb/collections/{collection_id}";

/** Where the contract has 400 for a collection that does not exist. */
export const missingCollectionIs400 = { collection_not_found: 400 } as const;

/** All of an operation but its `run` and its examples. */
export type Declaration = {
  readonly method: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path with `{name}` for parameters. */
  readonly path: string;
  /**
   * Whether a request without a response, which may or may not have been executed, is sent again. Default: always.
   *
   *   always    Executing it twice leaves the same state as once, so it is sent again.
   *   refused   It is sent again only if the server certainly did not execute it: the connection was refused, or the status says so
   *             (429, 503). Create requests are of this kind: after a lost response the second request would get 409, and it would be
   *             unknown who created the collection, index or transaction.
   */
  readonly repeat?: "always" | "refused";
  /**
   * The error code of a repeated request that shows that the first one was executed: a delete that finds nothing the second time has
   * succeeded the first time.
   */
  readonly done?: ErrorCode;
  /** The lowest role that may call it; `anyone` needs no key. */
  readonly role: Role | "anyone";
  /**
   * Where the operation names collections, if not as `{collection_id}` in the path: in the body's `name`, or in the answer, which has only what
   * the key may see. An operation without this field and without such a path is closed to keys that are limited to collections.
   */
  readonly collections?: "body.name" | "answer";
  /**
   * What it does for a key with a filter. `filtered`: its answer depends on no records but those that match, and it changes no others.
   * `harmless`: it concerns no records. Absent: it is closed to such keys, since it tells of all records or changes what others use
   * (docs/decisions/keys-with-filters.md).
   */
  readonly keyFilter?: "filtered" | "harmless";
  /**
   * Present if the audit log records the request: changes of keys, collections, indexes and snapshots. The path parameters are always
   * recorded, and these fields of the body (`a.b` is the field b of a). None may be a secret.
   */
  readonly audited?: readonly string[];
  /** Fields of the answer that the audit log records, too, by the name under which it does. */
  readonly auditedAnswer?: Readonly<Record<string, string>>;
  /** Default: read. */
  readonly work?: WorkKind;
  /** Estimated milliseconds, from what was asked; absent: the least. */
  readonly expectedMs?: (body: never, query: never) => number;
  /** Whether serving threads run it themselves; all others are the owner's. */
  readonly threads?: true;
  /** Whether a request with an `Idempotency-Key` is done once: its repetition is answered alike for 24 hours. */
  readonly once?: true;
  /** Whether it can be asked of an earlier version: its body, or its query, has `version` and `as_of`. */
  readonly past?: true;
  /** Whether only a server has it: keys, sessions and the audit log. */
  readonly isOfServer?: true;
  readonly tag: string;
  readonly summary: string;
  readonly body?: TSchema;
  /** The field of the body that is a dense vector, if it has one of its own. Like those of lists it may be given as bytes. */
  readonly vectorField?: string;
  /** Where lists of the body have dense vectors: in a field of each object (`queries[].vector`), or among their items (`positive[]`). */
  readonly vectorLists?: readonly string[];
  /**
   * Where the body has records: it is one, or its `vectors` are some, which can also be sent as lines of JSON or MessagePack. Their memory is
   * freed when `run` has ended.
   */
  readonly records?: "body" | "vectors";
  /** Whether the body has a patch of metadata. */
  readonly patch?: true;
  readonly query?: Parameters;
  /** Of success. Default: 200. */
  readonly status?: 200 | 201 | 202 | 204;
  /** Absent if there is none. `Empty`: for any. */
  readonly answer?: TSchema;
  /** The answer is a list of records: `run` passes each to `take`, since all of a large document at once are too many objects. */
  readonly oneByOne?: true;
  /** Whether its pages can be asked for as an endless stream of server-sent events: `since` of the query is where one begins. */
  readonly events?: true;
  /** Absent: application/json. */
  readonly mediaType?: "application/x-ndjson" | "application/octet-stream";
  /** The body is a file (application/octet-stream), stored as it arrives; only the disk limits its size. */
  readonly upload?: true;
  /** Codes whose status differs from the error table: the same condition has different statuses on different endpoints (service-interface, "Errors"). */
  readonly statusOf?: Partial<Record<ErrorCode, number>>;
  /** Error statuses that the contract lists, for the API reference. Default: 400, 404, 500. */
  readonly errors?: readonly number[];
};

type PathParameter<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | PathParameter<Rest>
  : never;

/** The path parameters: `{ collection_id: string, ... }`. */
export type ParamsOf<D extends Declaration> = { readonly [Name in PathParameter<D["path"]>]: string };

type BodyOf<D extends Declaration> = D extends { readonly body: infer Shape extends TSchema }
  ? Static<Shape>
  : undefined;

/** What serving threads have of a database. */
export type ThreadServed = {
  collection(
    name: string,
  ): Pick<Collection, "search" | "upsert" | "delete"> & { at?(when: When): Pick<Collection, "search"> };
};

/** An operation that is open to keys with a filter has only what such keys may use. */
type DatabaseOf<D extends Declaration> = D extends { readonly threads: true }
  ? ThreadServed
  : D extends { readonly keyFilter: string }
    ? Database | RestrictedDatabase
    : Database;

/** What only a server has. */
export type ServerSide = {
  logIn(username: string, password: string): Promise<Session>;
  /** @throws forbidden on a server without authentication */
  readonly keys: {
    create(request: CreateKey): Promise<KeyCreated>;
    list(): KeyList["keys"];
    revoke(id: string): Promise<void>;
  };
  readAudit(limit: number): Promise<AuditList>;
};

/** What every call has. */
export type CallParts = {
  readonly database: unknown;
  /** Percent-decoded. */
  readonly params: Readonly<Record<string, string>>;
  /** As `readParameters` gives it. */
  readonly query: unknown;
  /** Of the declared shape. */
  readonly body: unknown;
  readonly upload?: AsyncIterable<Uint8Array>;
  readonly take?: (record: StoredVector) => void;
  /** How long the caller waits. */
  readonly options: CallOptions;
  /** Who pages through records; cursors are valid for one reader. */
  readonly reader?: string;
  /** Whether the caller may see a collection. */
  readonly reaches: (name: string) => boolean;
  readonly server?: ServerSide;
};

/** A request, as `run` gets it. */
export type Call<D extends Declaration> = {
  readonly database: DatabaseOf<D>;
  /** That of the path. @throws collection_not_found when it is read */
  readonly collection: ReturnType<DatabaseOf<D>["collection"]>;
  /** That of the path. */
  readonly transaction: Transaction;
  readonly params: ParamsOf<D>;
  readonly query: D extends { readonly query: infer P extends Parameters } ? ParametersOf<P> : undefined;
  readonly body: BodyOf<D>;
  readonly upload: AsyncIterable<Uint8Array>;
  readonly take: (record: StoredVector) => void;
  readonly options: CallOptions;
  readonly reader: string | undefined;
  readonly reaches: (name: string) => boolean;
  readonly server: ServerSide;
};

/** What `run` gives: the answer, in which records may be as they are stored, or what is sent as a stream. */
type Given<D extends Declaration> = D extends { readonly oneByOne: true }
  ? unknown
  : D extends { readonly mediaType: "application/x-ndjson" }
    ? LineExport
    : D extends { readonly mediaType: "application/octet-stream" }
      ? SnapshotFile
      : D extends { readonly answer: infer Shape extends TSchema }
        ? Record<string, never> extends Static<Shape>
          ? unknown
          : WithStored<Static<Shape>>
        : unknown;

type WithStored<T> = VectorRecord extends T
  ? T | StoredVector
  : T extends readonly (infer Item)[]
    ? readonly WithStored<Item>[]
    : T extends { vectors: readonly (infer _Item)[] }
      ? Omit<T, "vectors"> & { vectors: readonly StoredVector[] }
      : T extends { states: readonly (infer State)[] }
        ? Omit<T, "states"> & { states: readonly (Omit<State, "vector"> & { vector: StoredVector })[] }
        : T extends { changes: readonly unknown[] }
          ? Omit<T, "changes"> & { changes: readonly unknown[] }
          : T;

const defaults = { repeat: "always", work: "read", status: 200, errors: [400, 404, 500] } as const;

/** What every record has beside its declaration. */
type Complete = Required<Pick<Declaration, keyof typeof defaults>> & {
  readonly run: (call: never) => unknown;
  /** Bodies; the first shows what is needed. The API reference shows them, and a test sends them. */
  readonly examples: readonly unknown[];
};

/** Any operation. */
export type Operation = Declaration & Complete;

export function operation<const D extends Declaration>(
  declaration: D,
  run: (call: Call<D>) => Given<D> | Promise<Given<D>>,
  ...examples: BodyOf<D>[]
): D & Complete {
  return { ...defaults, ...declaration, run, examples };
}

/** A call: its parts, and what the path names. */
class RunningCall {
  declare readonly database: {
    collection(name: string): { at?(when: When): unknown; transaction(id: string): unknown };
  };
  declare readonly params: CallParts["params"];
  readonly #when: When | undefined;

  constructor(parts: CallParts, isPast: boolean) {
    Object.assign(this, parts);
    if (!isPast) return;
    const [inBody, body] = whenOf(parts.body);
    const [inQuery, query] = whenOf(parts.query);
    this.#when = inBody ?? inQuery;
    Object.assign(this, { body, query });
  }

  get collection() {
    const collection = this.database.collection(this.params.collection_id);
    if (this.#when === undefined) return collection as ReturnType<Database["collection"]>;
    if (collection.at !== undefined) return collection.at(this.#when) as Collection;
    throw new QuiverError(
      "forbidden",
      "A key with a filter reads the current version only. Leave out version and as_of.",
    );
  }

  get transaction(): unknown {
    return this.collection.transaction(this.params.transaction_id);
  }
}

/** Which version is asked for, and the fields without that. */
function whenOf(fields: unknown): [When | undefined, unknown] {
  if (typeof fields !== "object" || fields === null) return [undefined, fields];
  if (!("version" in fields || "as_of" in fields)) return [undefined, fields];
  const { version, as_of, ...rest } = fields as When;
  if (version == null && as_of == null) return [undefined, rest];
  return [{ ...(version != null && { version }), ...(as_of != null && { as_of }) }, rest];
}

/** Runs an operation. @throws QuiverError, also before it returns a promise */
export const runOperation = ({ run, past }: Operation, parts: CallParts): unknown =>
  (run as (call: RunningCall) => unknown)(new RunningCall(parts, past === true));

/**
 * The Idempotency-Key of a request, if it is a write: reads change nothing, and have none.
 * @throws invalid_request for a write that is not recognized when it comes again
 */
export function keyFor(
  { once, role, method }: Pick<Operation, "once" | "role" | "method">,
  given: string | undefined,
): string | undefined {
  if (given === undefined || once) return given;
  if (method === "GET" || method === "HEAD" || role === "read" || role === "anyone") return undefined;
  throw fieldError(
    "idempotency-key",
    "no Idempotency-Key",
    "one",
    "This request takes no Idempotency-Key: its repetition would not be recognized. Send it without.",
  );
}
