// How is JSON shown without changing its numbers?
//
// JavaScript cannot hold every number that JSON can (9007199254740993, 1e999), so what the server sent is indented as text.

/** Longer texts are shown as they are. */
const indentedCharsMax = 4_000_000;

const tokensOf = (json: string): string[] => json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];

/** The same JSON with a line for each member. A text that is not JSON stays as it is. */
export function indented(text: string): string {
  if (text.length > indentedCharsMax || !isJson(text)) return text;
  const tokens = tokensOf(text);
  let shown = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i];
    if (token === "{" || token === "[") {
      shown += token;
      if (tokens[i + 1] === "}" || tokens[i + 1] === "]") shown += tokens[++i];
      else {
        depth++;
        shown += line();
      }
    } else if (token === "}" || token === "]") {
      depth--;
      shown += line() + token;
    } else if (token === ",") shown += token + line();
    else shown += token === ":" ? ": " : token;
  }
  return shown;
}

/** A record to be edited: a line for each member that has a value, and lines of their own for the metadata. @param json text of a record */
export function editable(json: string): string {
  const members = Object.entries(JSON.parse(json)).flatMap(([name, value]) => {
    const text = memberOf(json, name);
    if (value === null || text === undefined) return [];
    const shown = name === "metadata" ? indented(text).replaceAll("\n", "\n  ") : text;
    return [`  ${JSON.stringify(name)}: ${shown}`];
  });
  return `{\n${members.join(",\n")}\n}`;
}

/** The text of a member of an object; undefined if it has no such member. @param json text of an object */
export function memberOf(json: string, name: string): string | undefined {
  const tokens = tokensOf(json);
  let depth = 0;
  for (let i = 0; i < tokens.length; i++) {
    const isName = depth === 1 && tokens[i + 1] === ":" && tokens[i] === JSON.stringify(name);
    if (isName) return valueAt(tokens, i + 2);
    depth += changeOf(tokens[i]);
  }
  return undefined;
}

function valueAt(tokens: readonly string[], from: number): string {
  let depth = 0;
  let end = from;
  do depth += changeOf(tokens[end++]);
  while (depth > 0);
  return tokens.slice(from, end).join("");
}

const changeOf = (token: string): number =>
  token === "{" || token === "[" ? 1 : token === "}" || token === "]" ? -1 : 0;

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
