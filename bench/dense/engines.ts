// Which engines are measured, and in which order do they stand on the page?

import type { EngineKind } from "./engine.ts";
import { hnswlib } from "./engines/hnswlib.ts";
import { lancedb } from "./engines/lancedb.ts";
import { quiver } from "./engines/quiver.ts";
import { usearch } from "./engines/usearch.ts";
import { vectorlite } from "./engines/vectorlite.ts";
import { zvec } from "./engines/zvec.ts";

export const engineKinds: readonly EngineKind[] = [
  ...quiver,
  ...hnswlib,
  ...usearch,
  ...vectorlite,
  ...zvec,
  ...lancedb,
];

/** The engine of this name; fails with the names there are. */
export function engineKind(name: string): EngineKind {
  const kind = engineKinds.find((each) => each.name === name);
  if (kind !== undefined) return kind;
  throw new Error(
    `no engine is called ${name}; there are ${engineKinds.map((each) => each.name).join(", ")}`,
  );
}
