// Which nats-server do tests of the cluster use?

import { resolve } from "node:path";
import { findNatsServer } from "../src/dev/nats-server.ts";

const found = findNatsServer(resolve(import.meta.dirname, "../../../.cache"));

/** Why there is none: tests that need it are skipped, with this reason. */
export const missing = "missing" in found ? found.missing : undefined;
if (missing !== undefined && process.env.QUIVER_REQUIRE_NATS !== undefined) throw new Error(missing);

/** Its path. Only for tests that are not skipped. */
export const natsServer = "path" in found ? found.path : "";
/** For titles: why tests are skipped. */
export const remark = missing ?? "nats-server is there";
