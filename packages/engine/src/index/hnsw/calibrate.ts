// Which codes fit the data?
//
// PLACE HOLDER HEADER
import type { MetricName } from "@quiver/protocol/shapes/index-definition";
import { Encoding, type EncodingState, type HnswDataType } from "./encoding.ts";

export type CalibrationRequest = {
  readonly metric: MetricName;
  readonly dataType: HnswDataType | "auto";
  readonly dimension: number;
  readonly range: { readonly min: number; readonly max: number } | undefined;
  readonly seed: number;
  /** The vectors of the sample, one after the other. */
  readonly rows: Float32Array;
};

export function calibrate({
  metric,
  dataType,
  dimension,
  range,
  seed,
  rows,
}: CalibrationRequest): EncodingState {
  const sample = Array.from({ length: rows.length / dimension }, (_, i) =>
    rows.subarray(i * dimension, (i + 1) * dimension),
  );
  return new Encoding(
    { metric, dataType: dataType === "auto" ? "u8" : dataType, dimension, range, seed },
    sample,
  ).toState();
}
