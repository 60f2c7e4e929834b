// How does the client know the operations without the schemas?
//
// Its list is written here from their records, and kept in the repository because the client runs from its sources. A test fails while the
// list is another one than the records make.

import { globSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { allOperations } from "@quiverdb/engine/operations/operations";

const packages = join(import.meta.dirname, "../packages");
export const path = join(packages, "client/src/endpoint-list.ts");

/** The text of the list. */
export async function endpointList(): Promise<string> {
  const shapes = await shapeNames();
  const modules = new Set<string>();
  const endpoints: string[] = [];
  const answers: string[] = [];
  for (const [name, { method, path, repeat, done, answer, past, body }] of allOperations) {
    // Where it takes the version that is asked.
    const where = body === undefined ? "query" : "body";
    const fields = {
      method,
      path,
      repeat,
      ...(done !== undefined && { done }),
      ...(past && { past: where }),
    };
    const written = Object.entries(fields).map(([field, value]) => `${field}: "${value}"`);
    endpoints.push(`  ${name}: { ${written.join(", ")} },`);
    const shape = answer === undefined ? undefined : shapes.get(answer);
    if (answer !== undefined && shape === undefined) throw new Error(`the answer of ${name} is no shape`);
    if (shape !== undefined) modules.add(shape.module);
    answers.push(
      `  ${name}: ${shape === undefined ? "undefined" : `${aliasOf(shape.module)}.${shape.name}`};`,
    );
  }
  const imports = [...modules]
    .sort()
    .map((each) => `import type * as ${aliasOf(each)} from "@quiverdb/protocol/shapes/${each}";`);
  return `// Which endpoints exist, where are they, when may a request to one be repeated, and what is the answer?
//
// Written by tools/endpoint-list.ts from the records of engine/operations, which say what each field means; not to be edited.

${imports.join("\n")}

export const endpoints = {
${endpoints.join("\n")}
} as const;

export type Answers = {
${answers.join("\n")}
};
`;
}

/** Where each shape is exported. */
async function shapeNames(): Promise<Map<unknown, { module: string; name: string }>> {
  const names = new Map<unknown, { module: string; name: string }>();
  for (const file of globSync(join(packages, "protocol/src/shapes/*.ts")).sort()) {
    const module = basename(file, ".ts");
    for (const [name, shape] of Object.entries(await import(file)))
      if (!names.has(shape)) names.set(shape, { module, name });
  }
  return names;
}

const aliasOf = (module: string): string => module.replaceAll(/-(\w)/g, (_, letter) => letter.toUpperCase());

if (import.meta.main) writeFileSync(path, await endpointList());
