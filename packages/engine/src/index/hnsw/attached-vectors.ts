// What does a thread know of the vectors of a dense index that another one owns?

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { metrics } from "../../vector/metrics.ts";
import { AttachedGraphs, type SharedGraphs } from "./attached-graphs.ts";
import { DuplicateVectorsReader, type SharedDuplicateVectors } from "./duplicate-vectors.ts";
import { SearchedVectors } from "./searched-vectors.ts";
import { type SharedVectorRows, VectorRowsView } from "./vector-rows.ts";

/** What a thread needs to search the vectors of an index as they were at a time. Can be posted to it. */
export type SharedVectors = {
  readonly dimension: number;
  readonly metric: MetricName;
  readonly graphs: SharedGraphs | undefined;
  readonly rows: SharedVectorRows;
  readonly copies: SharedDuplicateVectors;
  readonly directionless: number;
  readonly count: number;
  readonly last: number;
};

export class AttachedVectors extends SearchedVectors {
  readonly graphs: AttachedGraphs | undefined;
  readonly rows: VectorRowsView;
  readonly copies: DuplicateVectorsReader;
  readonly directionless: number;
  readonly count: number;
  readonly last: number;

  /** @param slot of this thread */
  constructor({ dimension, metric, graphs, rows, copies, ...others }: SharedVectors, slot: number) {
    super(dimension, metrics[metric]);
    this.graphs = graphs && new AttachedGraphs(graphs, slot);
    this.rows = VectorRowsView.attach(this.metric, rows, slot);
    this.copies = DuplicateVectorsReader.attach(copies);
    this.directionless = others.directionless;
    this.count = others.count;
    this.last = others.last;
  }

  get waitingCount(): number {
    return this.rows.waitingCount;
  }
}
