// What is checked in the same way for all kinds of index: in their definitions, and in requests that search them?

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { bytesBeyond } from "../base/bytes.ts";

/** The error for an invalid field. */
export function invalid(path: string, problem: string): QuiverError {
  return new QuiverError("invalid_request", `${path} ${problem}`, { path });
}

/** The name of an index. @param otherwise where none is given. @throws invalid_request */
export function nameOf(given: unknown, otherwise: string): string {
  const name = given ?? otherwise;
  if (typeof name !== "string" || name === "" || !name.isWellFormed())
    throw invalid("name", "must be a non-empty string of UTF-8.");
  const bytes = bytesBeyond(name, limits.indexNameBytesMax);
  if (bytes > 0)
    throw invalid("name", `has ${bytes} bytes, at most ${limits.indexNameBytesMax} are allowed.`);
  return name;
}

/** @throws invalid_request */
export function oneOf(value: unknown, values: readonly unknown[], path: string): void {
  if (!values.includes(value))
    throw invalid(path, `is ${JSON.stringify(value)}; expected one of ${values.join(", ")}.`);
}

/** The number, or the one that is meant by none. @throws invalid_request unless it is an integer from 1 */
export function integer(
  value: number | null | undefined,
  fallback: number,
  path: string,
  max: number,
): number {
  const number = value ?? fallback;
  if (!Number.isInteger(number) || number < 1 || number > max)
    throw invalid(path, `is ${number}; expected an integer from 1 to ${max}.`);
  return number;
}

/** @throws invalid_request */
export const sampleThreshold = (
  { sample_threshold }: { readonly sample_threshold?: number | null },
  path = "sample_threshold",
): number => integer(sample_threshold, limits.sampleThresholdDefault, path, limits.sampleThresholdMax);

/** @param what the collection needs. @throws modality_not_enabled */
export function requireEnabled(enabled: boolean, kind: string, what: string): void {
  if (!enabled)
    throw new QuiverError(
      "modality_not_enabled",
      `The collection was created without ${what}, so it cannot have a ${kind} index. Create a collection with ${what} enabled.`,
      { index_type: kind },
    );
}

/** @param kind of content that the collection must have. @throws modality_not_enabled */
export function requireContent(isEnabled: boolean, kind: string, path: string): void {
  if (!isEnabled)
    throw new QuiverError("modality_not_enabled", `${path} is given, but the collection has no ${kind}.`, {
      path,
    });
}
