// From where does this node read each log when it starts?
//
// From its noted cursor. Everything up to a noted cursor is durable in the collections of this node. So none is noted as long as a collection
// of its log is copied from another node: what was read meanwhile is kept in memory only, and after a restart it must be read again. Otherwise
// a node that restarts before the copy is there would serve its old store without those messages.

import type { Replica } from "@quiverdb/engine/database/replication";

/** How far a node has read a log, and which message that was. */
export type Cursor = { readonly position: number; readonly opId: string };

export class Cursors {
  readonly #notes: Replica["notes"];
  readonly #cursors: Cursor[] = [];
  readonly #noted: number[] = [];

  /** @param count of logs */
  constructor(notes: Replica["notes"], count: number) {
    this.#notes = notes;
    for (let i = 0; i < count; i++) {
      const noted = notes.get(`cursor-${i}`) as Cursor | undefined;
      this.#cursors[i] = noted ?? { position: 0, opId: "" };
      this.#noted[i] = this.#cursors[i].position;
    }
  }

  at(log: number): Cursor {
    return this.#cursors[log];
  }

  /** Everything up to here is durable in the collections of this node, or kept for those that are copied. */
  move(log: number, cursor: Cursor): void {
    this.#cursors[log] = cursor;
  }

  /** Notes them durably. @param isHeld whether a collection of a log is being copied */
  async note(isHeld: (log: number) => boolean): Promise<void> {
    for (const [i, cursor] of this.#cursors.entries()) {
      if (cursor.position === this.#noted[i] || isHeld(i)) continue;
      await this.#notes.put(`cursor-${i}`, cursor);
      this.#noted[i] = cursor.position;
    }
  }

  /** Messages up to these positions are not needed any more. */
  get noted(): readonly number[] {
    return this.#noted;
  }
}
