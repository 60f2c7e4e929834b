import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ByteWriter, bytesBeyond, concatenated, fromHex, lenientText, toHex } from "../base/bytes.ts";
import { host, plainHost } from "../base/host.ts";
import { nodeHost } from "./node-host.ts";

const bytes = fc.uint8Array({ maxLength: 300 });

describe("the plain host and Node.js", () => {
  test("have the same hashes", () => {
    fc.assert(
      fc.property(fc.array(bytes), (parts) => {
        const [plain, node] = [plainHost.sha256(), nodeHost.sha256()];
        for (const part of parts) {
          plain.update(part);
          node.update(part);
        }
        expect([...plain.digest()]).toEqual([...node.digest()]);
      }),
    );
  });

  test("have the same checksums, of whole texts and of parts", () => {
    fc.assert(
      fc.property(bytes, bytes, (a, b) => {
        expect(plainHost.crc32(a)).toBe(nodeHost.crc32(a));
        expect(plainHost.crc32(b, plainHost.crc32(a))).toBe(nodeHost.crc32(concatenated([a, b])));
      }),
    );
  });

  test("have the same order", () => {
    const short = fc.uint8Array({ maxLength: 4, max: 2 });
    fc.assert(
      fc.property(short, short, (a, b) => {
        expect(Math.sign(plainHost.compare(a, b))).toBe(Math.sign(nodeHost.compare(a, b)));
      }),
    );
  });

  test("call back once for each act, in order", async () => {
    for (const { defer } of [plainHost, nodeHost]) {
      const acts: number[] = [];
      await new Promise<void>((done) => {
        for (let i = 0; i < 3; i++) defer(() => acts.push(i));
        defer(done);
      });
      expect(acts).toEqual([0, 1, 2]);
    }
  });

  test("Node.js is the host where its file is imported", () => {
    expect(host).toBe(nodeHost);
  });
});

describe("bytes have the values that Node.js gives them", () => {
  const text = fc.oneof(
    fc.string({ unit: "binary", maxLength: 60 }),
    fc.string({ unit: "grapheme", maxLength: 3_000 }),
  );

  test("of texts: written, counted and read", () => {
    fc.assert(
      fc.property(text, fc.integer({ min: 1, max: 20 }), (value, initialBytes) => {
        const utf8 = Buffer.from(value);
        const out = new ByteWriter(initialBytes);
        out.text32(value);
        if (utf8.length <= 0xffff) out.text16(value);
        const head = Buffer.alloc(4);
        head.writeUInt32LE(utf8.length);
        const parts = [head, utf8, ...(utf8.length <= 0xffff ? [head.subarray(0, 2), utf8] : [])];
        expect(Buffer.from(out.take()).equals(Buffer.concat(parts))).toBe(true);
        expect(lenientText(utf8)).toBe(value);
        for (const max of [utf8.length - 1, utf8.length])
          expect(bytesBeyond(value, max)).toBe(utf8.length > max ? utf8.length : 0);
      }),
    );
  });

  test("of numbers, wherever the memory ends", () => {
    const number = fc.record({ size: fc.constantFrom(1, 2, 4), value: fc.nat({ max: 2 ** 32 - 1 }) });
    fc.assert(
      fc.property(
        fc.array(number, { maxLength: 12 }),
        fc.integer({ min: 1, max: 9 }),
        (numbers, initialBytes) => {
          const out = new ByteWriter(initialBytes);
          const expected = numbers.map(({ size, value }) => {
            if (size === 1) out.u8(value);
            else if (size === 2) out.u16(value);
            else out.u32(value);
            return Buffer.from(Uint32Array.of(value).buffer).subarray(0, size);
          });
          expect(toHex(out.take())).toBe(Buffer.concat(expected).toString("hex"));
        },
      ),
    );
  });

  test("of hex, also damaged", () => {
    fc.assert(
      fc.property(bytes, fc.string({ maxLength: 5 }), (value, tail) => {
        expect(toHex(value)).toBe(Buffer.from(value).toString("hex"));
        const damaged = toHex(value) + tail;
        expect([...fromHex(damaged)]).toEqual([...Buffer.from(damaged, "hex")]);
      }),
    );
  });

  test("of invalid UTF-8", () => {
    fc.assert(fc.property(bytes, (value) => lenientText(value) === Buffer.from(value).toString()));
  });
});

test("every thread of the engine has Node.js as its host", () => {
  const source = join(import.meta.dirname, "..");
  const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter(
    (path) => path.endsWith(".ts") && !path.includes("testing"),
  );
  const texts = files.map((path) => ({ path, text: readFileSync(join(source, path), "utf8") }));
  const threads = texts.filter(({ text }) =>
    /import \{[^}]*\bparentPort\b[^}]*\} from "node:worker_threads"/.test(text),
  );
  expect(threads.length).toBeGreaterThan(3);
  expect(threads.filter(({ text }) => !text.includes('/node-host.ts";')).map(({ path }) => path)).toEqual([]);
});
