// Which engines are measured, and in which order do they stand on the page?

import type { EngineKind } from "./engine.ts";
import { hnswlib } from "./engines/hnswlib.ts";
import { lancedb } from "./engines/lancedb.ts";
import { quiver, quiverDatabase } from "./engines/quiver.ts";
import { usearch } from "./engines/usearch.ts";
import { vectorlite } from "./engines/vectorlite.ts";
import { zvec } from "./engines/zvec.ts";

export const engineKinds: readonly EngineKind[] = [
  quiverDatabase,
  ...quiver,
  ...hnswlib,
  ...usearch,
  ...vectorlite,
  ...zvec,
  ...lancedb,
];
