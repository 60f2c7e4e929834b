// Which servers are measured, and in which order do they stand on the page?

import { bare } from "./kinds/bare.ts";
import { chroma } from "./kinds/chroma.ts";
import { postgres } from "./kinds/postgres.ts";
import { quiver } from "./kinds/quiver.ts";
import { redis } from "./kinds/redis.ts";
import type { ServerKind } from "./server.ts";

export const serverKinds: readonly ServerKind[] = [quiver, ...redis, postgres, chroma, bare];
