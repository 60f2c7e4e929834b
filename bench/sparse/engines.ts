// Which engines are measured, and in which order do they stand on the page?

import type { EngineKind } from "./engine.ts";
import { plain } from "./engines/plain.ts";
import { quiver, quiverDatabase } from "./engines/quiver.ts";
import { zvec } from "./engines/zvec.ts";

export const engineKinds: readonly EngineKind[] = [quiverDatabase, quiver, plain, ...zvec];
