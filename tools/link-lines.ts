// Does a link to a line of code still lead to what it names?
//
// `[answer](packages/engine/src/query/answer.ts#L36)` says that `answer` is declared in line 36 of that file; of `Writes.upsert` it is
// `upsert`. The check of the links proves it, and `npm run link-lines` puts all lines right after a change.

import { readFileSync, writeFileSync } from "node:fs";
import { join, posix, resolve } from "node:path";
import { type ESTree, parseSync, Visitor } from "rolldown/utils";
import { projectFiles } from "./project-files.ts";

/** A link to a line of a TypeScript file. */
const lineLink = /\[`?([\w.#]+)`?\]\(([^()\s]+\.ts)#L(\d+)\)/g;

/** What is wrong with a link to a line, in words; undefined for any other link, and for one that is right. */
export function lineFault(
  source: (path: string) => string,
  target: string,
  text: string | undefined,
): string | undefined {
  const [, path, line] = /^(.*\.ts)#L(\d+)$/.exec(target) ?? [];
  if (path === undefined) return undefined;
  const name = /^[\w.#]+$/.exec(text ?? "")?.[0];
  if (name === undefined) return "a link to a line has the name of what is declared there as its text";
  const lines = declarationsOf(source(path), name);
  if (lines.includes(Number(line))) return undefined;
  const where = lines.length === 0 ? "nowhere in the file" : `in line ${lines.join(", ")}`;
  return `${name} is declared ${where}; \`npm run link-lines\` puts lines right`;
}

/** The lines that declare a name: a function, a class, a variable, or `Class.method`, or a property that is a function. */
export function declarationsOf(source: string, name: string): number[] {
  const found = new Set<number>();
  const classes: string[] = [];
  const note = (node: ESTree.Node | null, owner?: string) => {
    if (node === null) return;
    const own = node.type === "Identifier" ? node.name : source.slice(node.start, node.end);
    if (own === name || `${owner}.${own}` === name) found.add(source.slice(0, node.start).split("\n").length);
  };
  new Visitor({
    FunctionDeclaration: ({ id }) => note(id),
    VariableDeclarator: ({ id }) => note(id),
    ClassDeclaration: ({ id }) => {
      note(id);
      classes.push(id?.name ?? "");
    },
    "ClassDeclaration:exit": () => void classes.pop(),
    MethodDefinition: ({ key }) => note(key, classes.at(-1)),
    Property: ({ key, value, method }) => {
      if (method || value.type === "ArrowFunctionExpression") note(key);
    },
  }).visit(parseSync("source.ts", source).program);
  return [...found].sort((x, y) => x - y);
}

/** The document with all lines put right that can be: those of names that its file declares once. */
export function withRightLines(document: string, source: (path: string) => string): string {
  return document.replaceAll(lineLink, (link, name: string, path: string, line: string) => {
    const lines = declarationsOf(source(path), name);
    return lines.length === 1 ? link.replace(`#L${line})`, `#L${lines[0]})`) : link;
  });
}

if (import.meta.main) {
  const root = resolve(import.meta.dirname, "..");
  for (const path of projectFiles(root).filter((file) => file.endsWith(".md"))) {
    const document = readFileSync(join(root, path), "utf8");
    const source = (target: string) => readFileSync(join(root, posix.dirname(path), target), "utf8");
    const right = withRightLines(document, source);
    if (right !== document) writeFileSync(join(root, path), right);
  }
}
