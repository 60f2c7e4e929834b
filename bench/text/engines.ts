// Which engines are measured, and in which order do they stand on the page?

import type { EngineKind } from "./engine.ts";
import { lancedb } from "./engines/lancedb.ts";
import { minisearch } from "./engines/minisearch.ts";
import { plain } from "./engines/plain.ts";
import { quiver, quiverDatabase } from "./engines/quiver.ts";
import { sqlite } from "./engines/sqlite.ts";
import { zvec } from "./engines/zvec.ts";

export const engineKinds: readonly EngineKind[] = [
  quiverDatabase,
  quiver,
  plain,
  zvec,
  lancedb,
  sqlite,
  minisearch,
];
