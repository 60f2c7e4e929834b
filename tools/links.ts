// Does everything that the documents point at exist, and is it ours? Is every rule of SPEC.md proved by a test?
//
// A contributor who moves a function, renames a heading or deletes the one test of a promise learns it from the check, and not a reader.
//
//   links      a relative link or image names a file of the project; its #anchor names a heading of that file
//   names      a link to code whose text is a name, `Store.read` say, leads to a file that has this name
//   packages   no file has the name of a package that is not ours, or installs by its name what is not published
//   rules      SPEC.md numbers its rules at the start of list items, **[T3]**; ids are unique
//   citations  each rule stands as [T3] in the title of at least one test that runs, and each id in a title is a rule

import { readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { type ESTree, parseSync, Visitor } from "rolldown/utils";
import { type MarkdownDocument, type Placed, readMarkdown } from "./markdown.ts";
import { isTestFile, projectFiles } from "./project-files.ts";

const SPEC = "SPEC.md";

/** Every dead link, every wrong name of a package, and every rule and citation that lacks its other half, as `file:line: what`. */
export function checkLinks(root: string): string[] {
  const files = projectFiles(root);
  const documents = new Map(
    files
      .filter((path) => path.endsWith(".md"))
      .map((path) => [path, readMarkdown(readFileSync(join(root, path), "utf8"))]),
  );
  return [
    ...deadLinks(root, files, documents),
    ...wrongPackages(root, files),
    ...checkRules(documents.get(SPEC), citationsIn(root, files)),
  ];
}

const renamed = "is not ours on the registry; the packages are quiverdb and @quiverdb/*";
/** The rest of a command up to a word. */
const to = "\\b[^\\n|;&#`\"',()]*? ";
const installing = "(?:npm|pnpm|yarn|bun|deno) (?:i|install|add)";
const fetching = `(?:${installing}|(?:npm|pnpm|yarn) (?:x|exec|dlx)|npx|bunx)`;
const wrongNames: readonly (readonly [RegExp, string])[] = [
  [/@quiver\/[\w-]*/g, renamed],
  [/(?:\bfrom|\bimport|\brequire)[ (]*["']quiver["'/]|"quiver": *"(?:npm:|[~^]?\d)/g, renamed],
  [new RegExp(`\\b${fetching}(?!${to}-p\\b)${to}(?:npm:)?quiver(?![\\w./:-])`, "g"), renamed],
  [
    new RegExp(`\\b(?:${installing}|npx (?:-y|--yes))${to}(?:@quiverdb/[\\w-]+|quiverdb)(?![\\w./-])`, "g"),
    "is not published yet: install it from the tarballs, ./packed/*.tgz",
  ],
];

function wrongPackages(root: string, files: readonly string[]): string[] {
  const texts = files.filter((path) => !/\.(png|ico|gz|npy|parquet)$/.test(path));
  return texts.flatMap((path) => {
    const text = readFileSync(join(root, path), "utf8");
    return wrongNames.flatMap(([pattern, why]) =>
      [...text.matchAll(pattern)].map(
        ({ index, 0: found }) => `${path}:${text.slice(0, index).split("\n").length}: ${found}: ${why}`,
      ),
    );
  });
}

function deadLinks(
  root: string,
  files: readonly string[],
  documents: ReadonlyMap<string, MarkdownDocument>,
): string[] {
  const targets = new Set(files.flatMap((path) => [path, ...foldersOf(path)]));
  return [...documents].flatMap(([path, { links }]) =>
    links.flatMap(({ target, line, code }) => {
      const source = (file: string) => readFileSync(join(root, posix.dirname(path), file), "utf8");
      const fault = linkFault(path, target, targets, documents) ?? nameFault(source, target, code);
      return fault === undefined ? [] : [`${path}:${line}: link "${target}": ${fault}`];
    }),
  );
}

/** The folders that hold a file, the project itself (".") included. */
function foldersOf(path: string): string[] {
  const folder = posix.dirname(path);
  return folder === "." ? ["."] : [folder, ...foldersOf(folder)];
}

function linkFault(
  from: string,
  link: string,
  targets: ReadonlySet<string>,
  documents: ReadonlyMap<string, MarkdownDocument>,
): string | undefined {
  if (/^([a-z][a-z0-9+.-]*:|\/\/)/i.test(link)) return undefined;
  if (!URL.canParse(link, "file:///") || /%(?![0-9a-f]{2})/i.test(link)) return "not a well-formed address";
  const [, path, , anchor] = /^([^#?]*)(\?[^#]*)?#?(.*)$/.exec(decodeURI(link)) as RegExpExecArray;
  // As on GitHub, a leading / means the project.
  const target = path === "" ? from : posix.join(path.startsWith("/") ? "." : posix.dirname(from), path);
  const file = target.replace(/(?<=.)\/$/, "");
  if (!targets.has(file)) return `${file} is not a file of the project`;
  const document = documents.get(file);
  if (anchor === "" || document === undefined || document.anchors.has(anchor)) return undefined;
  return `${file} has no heading #${anchor}`;
}

/** What is wrong with a link whose text is a name of the code, if its file has no such name. */
function nameFault(
  source: (path: string) => string,
  target: string,
  code: string | undefined,
): string | undefined {
  if (code === undefined || !/\.tsx?$/.test(target) || !/^[\w.#]+$/.test(code)) return undefined;
  const names = new Set(source(target).match(/#?\w+/g));
  const missing = code.split(".").find((name) => !names.has(name));
  return missing === undefined ? undefined : `${missing} does not occur in the file`;
}

type Citation = { id: string; path: string; line: number };

function checkRules(spec: MarkdownDocument | undefined, citations: readonly Citation[]): string[] {
  const rules = new Map<string, Placed<{ id: string }>>();
  const errors: string[] = [];
  for (const rule of spec?.rules ?? []) {
    const first = rules.get(rule.id);
    if (first === undefined) rules.set(rule.id, rule);
    else
      errors.push(
        `${SPEC}:${rule.line}: rule [${rule.id}] has its id from line ${first.line}; ids are unique`,
      );
  }
  const cited = new Set(citations.map(({ id }) => id));
  for (const { id, line } of rules.values()) {
    if (!cited.has(id)) errors.push(`${SPEC}:${line}: rule [${id}] is cited by no test title`);
  }
  for (const { id, path, line } of citations) {
    if (!rules.has(id))
      errors.push(`${path}:${line}: the test title cites [${id}], which is no rule of ${SPEC}`);
  }
  return errors;
}

function citationsIn(root: string, files: readonly string[]): Citation[] {
  return files
    .filter((path) => path.endsWith(".ts") && isTestFile(path))
    .flatMap((path) =>
      titlesOf(path, readFileSync(join(root, path), "utf8")).flatMap(({ title, line }) =>
        [...title.matchAll(/\[([A-Z]+\d+)\]/g)].map(([, id]) => ({ id, path, line })),
      ),
    );
}

/** The titles of the tests and groups of a test file, without those that are skipped or still to be written. */
function titlesOf(path: string, source: string): Placed<{ title: string }>[] {
  const { program, errors } = parseSync(path, source);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0].message}`);
  const titles: Placed<{ title: string }>[] = [];
  new Visitor({
    CallExpression: ({ callee, arguments: [first] }) => {
      const names = namesOf(callee);
      if (!["test", "it", "describe"].includes(names[0])) return;
      if (names.includes("skip") || names.includes("todo")) return;
      const title = literalText(first);
      if (title !== undefined) titles.push({ title, line: source.slice(0, first.start).split("\n").length });
    },
  }).visit(program);
  return titles;
}

/** The names along a callee: `test.skip.each(table)` is test, skip, each. */
function namesOf(callee: ESTree.Expression): string[] {
  if (callee.type === "Identifier") return [callee.name];
  if (callee.type === "CallExpression") return namesOf(callee.callee);
  if (callee.type === "TaggedTemplateExpression") return namesOf(callee.tag);
  if (callee.type !== "MemberExpression" || callee.property.type !== "Identifier") return [];
  return [...namesOf(callee.object), callee.property.name];
}

/** The fixed text of a string or template, or undefined for any other expression. */
function literalText(node: { type: string } | undefined): string | undefined {
  const expression = node as ESTree.Expression | undefined;
  if (expression?.type === "Literal" && typeof expression.value === "string") return expression.value;
  if (expression?.type !== "TemplateLiteral") return undefined;
  return expression.quasis.map(({ value }) => value.cooked).join(" ");
}
