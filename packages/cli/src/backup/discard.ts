// How is the temporary snapshot of a command removed from the server?

import type { Collection } from "@quiverdb/client";
import { messageFor } from "../advice.ts";

/** Deletes it. If that fails, the command still succeeds, and a message names the snapshot that is left. */
export async function discardSnapshot(collection: Collection, id: string): Promise<void> {
  try {
    await collection.deleteSnapshot(id);
  } catch (error) {
    process.stderr.write(
      `quiver: the snapshot ${id} of ${JSON.stringify(collection.name)} is left on the server (${messageFor(error)}).\n`,
    );
  }
}
