// Which records are written, and in which forms of a body?

import { randomNumbers } from "../../packages/kernels/src/random.ts";

export type Form = {
  readonly title: string;
  readonly contentType: string;
  body(from: number, vectors: readonly Float32Array[]): Buffer;
};

/** Vectors of random numbers, the same in each run. */
export function vectorsOf(count: number, dimension: number): Float32Array[] {
  const next = randomNumbers(dimension);
  return Array.from({ length: count }, () => Float32Array.from({ length: dimension }, () => 2 * next() - 1));
}

const id = (index: number): string => `record-${index}`;
const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array): Buffer =>
  Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
const asNumbers = (index: number, vector: Float32Array) => ({
  id: id(index),
  dense_values: Array.from(vector),
});
const asBase64 = (index: number, vector: Float32Array) => ({
  id: id(index),
  dense_values: { f32: bytesOf(vector).toString("base64") },
});

type ToRecord = (index: number, vector: Float32Array) => object;
const json =
  (record: ToRecord): Form["body"] =>
  (from, vectors) =>
    Buffer.from(JSON.stringify({ vectors: vectors.map((vector, i) => record(from + i, vector)) }));
const lines =
  (record: ToRecord): Form["body"] =>
  (from, vectors) =>
    Buffer.from(vectors.map((vector, i) => `${JSON.stringify(record(from + i, vector))}\n`).join(""));

/** {"id": string, "dense_values": bytes} in MessagePack. */
function packed(index: number, vector: Float32Array): Buffer {
  const text = (value: string) => Buffer.concat([Buffer.from([0xd9, value.length]), Buffer.from(value)]);
  const bytes = bytesOf(vector);
  const length = Buffer.from([0xc6, 0, 0, 0, 0]);
  length.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([
    Buffer.from([0x82]),
    text("id"),
    text(id(index)),
    text("dense_values"),
    length,
    bytes,
  ]);
}

const jsonType = "application/json";
const linesType = "application/x-ndjson";

/** The first one is the JSON whose parsing is the measure of all. */
export const forms: readonly Form[] = [
  { title: "JSON, numbers", contentType: jsonType, body: json(asNumbers) },
  { title: "lines of JSON, numbers", contentType: linesType, body: lines(asNumbers) },
  { title: "JSON, base64", contentType: jsonType, body: json(asBase64) },
  { title: "lines of JSON, base64", contentType: linesType, body: lines(asBase64) },
  {
    title: "MessagePack",
    contentType: "application/msgpack",
    body: (from, vectors) => Buffer.concat(vectors.map((vector, i) => packed(from + i, vector))),
  },
];
