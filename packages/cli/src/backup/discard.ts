// What becomes of the snapshot on the server that a command has used on its way?

import type { Collection } from "@quiver/client";

/** Deletes it. Where that fails the command is not held to have failed: it says what is left. */
export async function discardSnapshot(collection: Collection, id: string): Promise<void> {
  try {
    await collection.deleteSnapshot(id);
  } catch (error) {
    process.stderr.write(
      `quiver: the snapshot ${id} of ${JSON.stringify(collection.name)} is left on the server (${(error as Error).message}).\n`,
    );
  }
}
