// How are bytes written as base64 (RFC 4648, padded), in every runtime?

/** What makes base64, the fastest first: an ECMAScript method that not every runtime has yet, Node.js, every browser. */
const { Buffer: NodeBuffer } = globalThis as {
  Buffer?: {
    from(buffer: ArrayBufferLike, offset: number, length: number): { toString(encoding: "base64"): string };
  };
};
const charactersAtOnce = 4_096;

export function base64(bytes: Uint8Array): string {
  const { toBase64 } = bytes as { toBase64?: () => string };
  if (toBase64 !== undefined) return toBase64.call(bytes);
  if (NodeBuffer !== undefined)
    return NodeBuffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  let characters = "";
  for (let from = 0; from < bytes.length; from += charactersAtOnce)
    characters += String.fromCharCode(...bytes.subarray(from, from + charactersAtOnce));
  return btoa(characters);
}
