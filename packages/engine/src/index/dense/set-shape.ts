// Which parameters of its graphs follow from the options and the encoding of an index?

import { buildModes, dataTypeNumbers } from "./code-types.ts";
import type { Encoding } from "./encoding.ts";
import { efMax, type GraphShape } from "./graph-layout.ts";

/** The parameters of graphs that follow from the options of an index. */
export type GraphSetOptions = {
  readonly m: number;
  readonly m0: number;
  readonly efConstruction: number;
  readonly levelsMax: number;
  readonly seed: number;
  readonly memoryBytesMax: number;
  /** Threads that search or build at a time. */
  readonly scratchCount: number;
};

/** The layout of a graph whose vectors have an encoding. */
export function shapeOf(encoding: Encoding, options: GraphSetOptions): GraphShape {
  const { m, m0, efConstruction, memoryBytesMax, scratchCount } = options;
  const { codeBytes, queryBytes, dataType, metric } = encoding;
  return {
    codeBytes,
    queryBytes,
    dataType: dataTypeNumbers[dataType],
    m,
    m0,
    efConstruction,
    efMax,
    buildMode: buildModes[metric],
    memoryBytesMax,
    scratchCount,
  };
}
