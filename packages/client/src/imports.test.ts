import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

it("the client runs in browsers: it loads only its own files and the parts of the protocol without schemas", () => {
  const files = readdirSync(import.meta.dirname).filter((name) => !name.endsWith(".test.ts"));
  expect(files).toContain("client.ts");
  for (const name of files) {
    const source = readFileSync(join(import.meta.dirname, name), "utf8").replaceAll(/^\s*\*.*$/gm, "");
    // The compiler erases types, so types may be imported from any module.
    const loads = [...source.matchAll(/^(?:import|export) (?!type\b)[^;"()=]*from "([^"]+)"/gm)].map(
      ([, from]) => from,
    );
    for (const from of loads)
      expect(`${name}: ${from}`).toMatch(
        /: (\.\/[\w-]+\.ts|@quiverdb\/protocol\/(base64|errors|limits|kind-of|fields|invariant))$/,
      );
    expect(source).not.toMatch(/\b(process\.\w|Buffer\.\w|require\()/);
  }
});
