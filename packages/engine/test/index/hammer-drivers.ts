// Which kinds of index does the hammer of shared readers use?

import { denseDriver } from "./dense/hammer-driver.ts";
import type { HammerDriver } from "./hammer-driver.ts";
import { sparseDriver } from "./sparse/hammer-driver.ts";
import { textDriver } from "./text/hammer-driver.ts";

export const hammerDrivers: readonly HammerDriver[] = [denseDriver, sparseDriver, textDriver];
