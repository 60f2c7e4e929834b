// What does the engine ask of the program that it runs in?
//
// The engine's modules run wherever JavaScript and WebAssembly do. The few services that a program can do better, or that differ from one
// to the next, are a `Host`. `plainHost` needs nothing but the language and what every browser and server has in common. Node.js has a
// faster one (process/node-host.ts), which gives the same results byte for byte (node-host.test.ts).
//
// A thread has one host. Its first module installs it with `useHost`.

import { sha256 } from "@noble/hashes/sha2.js";

/** A SHA-256 of the bytes that it has been given. */
export interface Sha256 {
  update(bytes: Uint8Array): Sha256;
  /** The 32 bytes. Must be the last call. */
  digest(): Uint8Array;
}

export interface Host {
  sha256(): Sha256;
  /** The CRC-32 (of zlib) of bytes, continued from that of the bytes before them. */
  crc32(bytes: Uint8Array, before?: number): number;
  /** Order of two byte strings. Negative: `a` comes first. */
  compare(a: Uint8Array, b: Uint8Array): number;
  /** Memory for so many bytes, which the caller must write all. It may be a part of a larger buffer. */
  allocate(bytes: number): Uint8Array;
  /** Calls back when the events that have arrived are handled. */
  defer(act: () => void): void;
  /** Versions of the character tables of the language, where they are known. */
  readonly characterTables: { readonly icu?: string | undefined; readonly unicode?: string | undefined };
}

const crcTable = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb8_8320 : crc >>> 1;
  return crc;
});

function crc32(bytes: Uint8Array, before = 0): number {
  let crc = ~before;
  for (let i = 0; i < bytes.length; i++) crc = crcTable[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

function compare(a: Uint8Array, b: Uint8Array): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return a[i] - b[i];
  return a.length - b.length;
}

/** A message to ourselves comes after the events that have arrived; a timer would be delayed by milliseconds. */
function messageLoop(): (act: () => void) => void {
  const waiting: (() => void)[] = [];
  let channel: InstanceType<typeof MessageChannel> | undefined;
  return (act) => {
    if (channel === undefined) {
      channel = new MessageChannel();
      channel.port1.addEventListener("message", () => waiting.shift()?.());
      channel.port1.start();
    }
    waiting.push(act);
    channel.port2.postMessage(null);
  };
}

/** A host that is made of nothing but the language and the web's common interfaces. */
export const plainHost: Host = {
  sha256: () => sha256.create(),
  crc32,
  compare,
  allocate: (bytes) => new Uint8Array(bytes),
  defer: messageLoop(),
  characterTables: {},
};

/** The host of this thread. */
export let host: Host = plainHost;

/** Makes `wanted` the host of this thread. */
export function useHost(wanted: Host): void {
  host = wanted;
}

// ---- How does a timer avoid keeping its program alive?

/** A timer of `setTimeout` or `setInterval`: an object in Node.js, a number in a browser. */
export type Timer = ReturnType<typeof setTimeout>;

/** Marks a timer that the program need not wait for, where programs wait for timers. @returns the timer */
export function inBackground(timer: Timer): Timer {
  (timer as { unref?(): void }).unref?.();
  return timer;
}
