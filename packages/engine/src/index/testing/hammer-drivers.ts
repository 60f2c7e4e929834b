// Which kinds of index does the hammer of shared readers use?

import { denseDriver } from "../hnsw/testing/hammer-driver.ts";
import { sparseDriver } from "../sparse/testing/hammer-driver.ts";
import { textDriver } from "../text/testing/hammer-driver.ts";
import type { HammerDriver } from "./hammer-driver.ts";

export const hammerDrivers: readonly HammerDriver[] = [denseDriver, sparseDriver, textDriver];
