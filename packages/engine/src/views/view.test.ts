import { expect, test } from "vitest";
import { EpochReader } from "../base/epochs.ts";
import { Visibility, visibleAt } from "../collection/visibility.ts";
import type { Index } from "../index/contract.ts";
import { MemoryStore } from "../storage/memory.ts";
import { readBoard } from "./board.ts";
import { type View, Views } from "./view.ts";

const store = new MemoryStore([]);
const published = (views: Views, visibility: Visibility, version: number, indexes = {}) =>
  views.publish(
    {
      version,
      ordinalEnd: 10 * version,

      readTxn: store.beginRead(),
      indexes,
      statistics: {},
    },
    visibility,
  );

test("what another thread has pinned stays: its version is the oldest, and nothing of it is freed", () => {
  const views = new Views(() => undefined, 1);
  const visibility = new Visibility((free) => views.retire(free));
  expect(views.oldestVersion).toBe(Number.POSITIVE_INFINITY);
  const shared = published(views, visibility, 1).shared;
  const reader = new EpochReader(views.sharedEpochs, 1);
  expect(reader.tryPin(shared.epoch)).toBe(true);
  const visible = visibleAt(shared.visibility, shared.version, shared.ordinalEnd);
  visibility.close(3, 2);
  let isFreed = false;
  views.retire(() => {
    isFreed = true;
  });
  published(views, visibility, 2);
  expect(views.oldestVersion).toBe(1);
  expect(visibility.reclaim(views.oldestVersion)).toEqual([]);
  views.reclaim();
  expect(isFreed).toBe(false);
  expect([visible(3), visible(10)]).toEqual([true, false]);
  reader.unpin(shared.epoch);
  expect(views.oldestVersion).toBe(2);
  expect(visibility.reclaim(views.oldestVersion)).toEqual([3]);
  views.reclaim();
  expect(isFreed).toBe(true);
  expect(reader.tryPin(shared.epoch)).toBe(false);
});

test("a record that was removed is hidden from readers of its epoch until they have ended", () => {
  const views = new Views(() => undefined, 1);
  const visibility = new Visibility((free) => views.retire(free));
  visibility.close(3, 1);
  const shared = published(views, visibility, 1).shared;
  const reader = new EpochReader(views.sharedEpochs, 1);
  expect(reader.tryPin(shared.epoch)).toBe(true);
  const visible = visibleAt(shared.visibility, 1, 10);
  expect(visibility.reclaim(views.oldestVersion)).toEqual([3]);
  for (const version of [2, 3]) published(views, visibility, version);
  views.reclaim();
  expect(visible(3)).toBe(false);
  expect(visibility.at(1, 30)?.(3)).toBe(false);
  reader.unpin(shared.epoch);
  views.reclaim();
  expect(visibility.at(3, 30)).toBeNull();
});

test("other threads ask again exactly when what they were posted of a view has changed, of whatever sort it is", () => {
  const memory = new SharedArrayBuffer(64);
  const parts: Record<string, unknown> = {
    beam: 128,
    farScore: undefined,
    reason: "it is so",
    rows: [new Float32Array(memory, 0, 4), new Float32Array(memory, 16, 4)],
    own: Uint32Array.of(1, 2, 3),
    graphs: { count: 7, memory },
  };
  const views = new Views(() => undefined, 1);
  const visibility = new Visibility((free) => views.retire(free));
  const index = {
    get shared() {
      return { ...parts };
    },
  } as unknown as Index;
  published(views, visibility, 1, { sparse: index });
  const reader = new EpochReader(views.sharedEpochs, 1);
  let posted = (views.current as View).shared;
  const isCurrent = () => {
    views.refresh();
    return posted.withdrawn === reader.withdrawn;
  };
  const changes: Record<string, unknown> = {
    beam: 256,
    farScore: 0.5,
    reason: "it is otherwise",
    rows: [new Float32Array(memory, 0, 4), new Float32Array(memory, 32, 4)],
    own: Uint32Array.of(1, 2, 4),
    graphs: { count: 7, memory: new SharedArrayBuffer(64) },
  };
  for (const [part, changed] of Object.entries(changes)) {
    // The same as before, in new objects, as a descriptor is made anew each time.
    Object.assign(parts, { rows: [new Float32Array(memory, 0, 4), new Float32Array(memory, 16, 4)] });
    posted = (views.current as View).shared;
    Object.assign(parts, { own: Uint32Array.of(1, 2, 3), graphs: { count: 7, memory } });
    expect(isCurrent(), part).toBe(true);
    const before = parts[part];
    parts[part] = changed;
    expect(isCurrent(), part).toBe(false);
    parts[part] = before;
  }
});

test("what a second thread is posted does not hide from the first that it has changed, nor does the next view", () => {
  const parts = { beam: 128 };
  const views = new Views(() => undefined, 2);
  const visibility = new Visibility((free) => views.retire(free));
  const reader = new EpochReader(views.sharedEpochs, 1);
  const index = {
    get shared() {
      return { ...parts };
    },
  } as unknown as Index;
  const first = published(views, visibility, 1, { sparse: index }).shared;
  parts.beam = 256;
  const second = (views.current as View).shared;
  expect([first, second].map(({ withdrawn }) => withdrawn === reader.withdrawn)).toEqual([false, true]);
  published(views, visibility, 1, { sparse: index });
  views.refresh();
  expect(second.withdrawn).toBe(reader.withdrawn);
  parts.beam = 512;
  views.refresh();
  expect(second.withdrawn).not.toBe(reader.withdrawn);
});

test("a reader that has died holds nothing back, and indexes are told", () => {
  const told: number[] = [];
  let released = 0;
  const views = new Views(() => released++, 2);
  const visibility = new Visibility((free) => views.retire(free));
  const index = { abandon: (slot: number) => told.push(slot) } as Partial<Index>;
  const { shared } = published(views, visibility, 1, {});
  expect(new EpochReader(views.sharedEpochs, 2).tryPin(shared.epoch)).toBe(true);
  const view = published(views, visibility, 2, { toys: index });
  expect(views.oldestVersion).toBe(1);
  const before = released;
  views.abandon(2);
  expect([views.oldestVersion, told, released - before]).toEqual([2, [2], 1]);
  expect(() => views.abandon(0)).toThrow("its own pins");
  expect(view.version).toBe(2);
});

test("later views are on the board until something is declared or the view is withdrawn", () => {
  const views = new Views(() => undefined, 1);
  const visibility = new Visibility((free) => views.retire(free));
  const known = published(views, visibility, 1).shared;
  const board = views.boardOf(known);
  expect(readBoard(board, known)).toEqual(known);
  const second = published(views, visibility, 2);
  expect(readBoard(board, known)).toEqual(second.shared);
  views.renew();
  expect(readBoard(board, known)).toBeUndefined();
  const again = views.boardOf(second.shared);
  expect(readBoard(again, known)).toEqual(second.shared);
  views.withdraw();
  expect(readBoard(again, known)).toBeUndefined();
});
