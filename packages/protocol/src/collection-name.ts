// Which collection names are valid?

import { limits } from "./limits.ts";

/** The rule for names, as text for messages. */
export const collectionNameRule =
  `1 to ${limits.collectionNameBytesMax} bytes of UTF-8, no / \\ ? # % and no control characters, and is not '.', '..' or ` +
  "'loaded'";

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const forbidden = /[/\\?#%\u0000-\u001f\u007f-\u009f]/u;

/** What is wrong with a name, as text to append to it; null for a valid name. */
export function collectionNameProblem(name: unknown): string | null {
  if (typeof name !== "string") return "must be a string";
  if (name === "") return "is empty";
  const problem = prefixProblem(name);
  if (problem !== null) return problem;
  if (name === "." || name === ".." || name === "loaded") return `is '${name}', which is reserved`;
  return null;
}

/** The same check for a name prefix. A prefix may equal a reserved word, because a name continues it. */
export function prefixProblem(beginning: string): string | null {
  if (!beginning.isWellFormed()) return "contains half of a surrogate pair";
  const bytes = new TextEncoder().encode(beginning).length;
  if (bytes > limits.collectionNameBytesMax) return `has ${bytes} bytes`;
  const found = forbidden.exec(beginning);
  return found && `has the character ${JSON.stringify(found[0])} at position ${found.index}`;
}
