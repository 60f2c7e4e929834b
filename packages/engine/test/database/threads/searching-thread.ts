// A serving thread without a server: it does what the test asks for.

import { parentPort, workerData } from "node:worker_threads";
import { invariant } from "@quiverdb/protocol/invariant";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import { AttachedView } from "../../../src/database/threads/attached-view.ts";
import { ThreadDatabase } from "../../../src/database/threads/thread-database.ts";
import type { SearchKind } from "../../../src/query/plan.ts";
import { Calls } from "../../../src/runtime/calls.ts";

invariant(parentPort !== null, "this is the program of a thread");
const database = new ThreadDatabase((workerData as { slot: number }).slot);

type Asked = {
  name: string;
  call: SearchKind | "upsert" | "delete";
  args: unknown;
  keyFilter?: Filter;
  timeoutMs?: number;
};

const calls = new Calls(parentPort, {
  ...database.handlers,
  ask({ name, call: asked, args, keyFilter, timeoutMs }: Asked): Promise<unknown> {
    const collection = (keyFilter === undefined ? database : database.restrictedTo(keyFilter)).collection(
      name,
    );
    const options = timeoutMs === undefined ? undefined : { timeoutMs };
    if (asked === "upsert" || asked === "delete") return collection[asked](args as never, options);
    return collection.search(asked, args as never, options);
  },
  /** Nested so deeply that a worker can write it, but the main thread, whose stack is smaller, cannot read it. */
  nested: ({ levels }: { levels: number }) => JSON.parse("[".repeat(levels) + "]".repeat(levels)),
  forwarded: () => forwarded,
  viewsAsked: () => viewsAsked,
  viewsSearched: () => viewsSearched,
  die: () => {
    setImmediate(() => {
      throw new Error("the thread dies");
    });
  },
});

/** Searches that went to the owner. */
let forwarded = 0;
/** How often the owner was asked for a view. */
let viewsAsked = 0;
/** How many views were searched. */
let viewsSearched = 0;
const searched = new WeakSet<AttachedView>();
const { tryPin } = AttachedView.prototype;
AttachedView.prototype.tryPin = function (this: AttachedView): boolean {
  if (!searched.has(this)) viewsSearched++;
  searched.add(this);
  return tryPin.call(this);
};
const call = calls.call.bind(calls);
calls.call = (kind, ...rest) => {
  if (kind === "search") forwarded++;
  else if (kind === "view") viewsAsked++;
  return call(kind, ...rest);
};
database.connect(calls);
