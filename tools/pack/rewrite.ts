// How does a compiled file become a file of a package?
//
// Its imports name modules of the workspace, and URLs that it makes name files beside its source; both get the names of the package. In
// declarations, what may be left out may also be undefined.

import { posix } from "node:path";
import ts from "typescript-6";
import { importsOf, moduleOf, type Places } from "./places.ts";

/** The text of a compiled file with the specifiers of its package. */
export function rewriteImports(text: string, module: string, places: Places): string {
  let rewritten = "";
  let at = 0;
  for (const { specifier, start, end } of importsOf(text).toSorted((a, b) => a.start - b.start)) {
    const imported = moduleOf(specifier, module);
    if (imported === undefined) continue;
    rewritten += text.slice(at, start) + places.specifier(module, imported);
    at = end;
  }
  return rewritten + text.slice(at);
}

/** Files that a module finds beside itself: threads, and the package.json of its package. */
export function rewriteUrls(text: string, module: string, places: Places): string {
  return text.replaceAll(/new URL\("([^"]+)", import\.meta\.url\)/g, (_, path: string) => {
    if (path.endsWith("package.json")) {
      const up = posix.relative(posix.dirname(places.pathOf(module)), "package.json");
      return `new URL("${up}", import.meta.url)`;
    }
    if (!path.endsWith(".ts")) throw new Error(`${module} has a URL of a file that is not packed: ${path}`);
    return `new URL("${path.replace(/\.ts$/, ".js")}", import.meta.url)`;
  });
}

/** The files of threads that a module starts: modules that no import names. */
export function threadsOf(text: string, module: string): string[] {
  return [...text.matchAll(/new URL\("([^"]+)\.(?:ts|js)", import\.meta\.url\)/g)].map(([, path]) =>
    posix.join(posix.dirname(module), path),
  );
}

/**
 * The text of declarations in which whatever may be left out may also be undefined, which is the same to all of our functions. With
 * `exactOptionalPropertyTypes` it is not the same to the compiler, and programs pass on what they may not have: `{ apiKey: process.env.KEY }`.
 */
export function allowUndefined(text: string): string {
  const inserted: { at: number; text: string }[] = [];
  const visit = (node: ts.Node): void => {
    ts.forEachChild(node, visit);
    if (!ts.isPropertySignature(node) && !ts.isPropertyDeclaration(node) && !ts.isMappedTypeNode(node))
      return;
    const { questionToken, type } = node;
    if (questionToken === undefined || questionToken.kind === ts.SyntaxKind.MinusToken) return;
    if (type === undefined || type.kind === ts.SyntaxKind.NeverKeyword) return;
    const needsBrackets = ts.isFunctionTypeNode(type) || ts.isConditionalTypeNode(type);
    if (needsBrackets) inserted.push({ at: type.getStart(file), text: "(" });
    inserted.push({ at: type.end, text: needsBrackets ? ") | undefined" : " | undefined" });
  };
  const file = ts.createSourceFile("declarations.d.ts", text, ts.ScriptTarget.ESNext);
  visit(file);
  let at = 0;
  const parts = inserted
    .toSorted((a, b) => a.at - b.at)
    .map((insertion) => {
      const part = text.slice(at, insertion.at) + insertion.text;
      at = insertion.at;
      return part;
    });
  return parts.join("") + text.slice(at);
}
