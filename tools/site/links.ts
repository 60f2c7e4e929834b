// What do the links of a document become on the site?
//
//   a document that is a page     its page
//   an image                      a copy of it
//   any other file, or a folder   its page among the sources (source-pages.ts), at the line that the link names
//
// All become absolute within the site. Addresses of other hosts and links within a page stay as they are.

import { posix } from "node:path";
import type { Nodes } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { gfm } from "micromark-extension-gfm";
import { visit } from "unist-util-visit";

/** The address of a file of the project in the site. @param path relative to the project */
export type Resolve = (path: string) => string;

/**
 * A document with the links of the site. Only destinations change, so every line stays where it is.
 * @param path of the document, relative to the project
 */
export function withSiteLinks(path: string, source: string, resolve: Resolve): string {
  const tree = fromMarkdown(source, { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] });
  const edits: { start: number; end: number; text: string }[] = [];
  visit(tree, (node) => {
    if (node.type === "html" && /\b(href|src)=/.test(node.value))
      throw new Error(`${path}: a link in HTML (${node.value}); write it as Markdown`);
    if (node.type !== "link" && node.type !== "image" && node.type !== "definition") return;
    const target = siteAddress(path, node.url, resolve);
    if (target === undefined) return;
    const start = destinationOf(source, node, node.url);
    if (start === undefined) throw new Error(`${path}: cannot find the destination ${node.url} in its link`);
    edits.push({ start, end: start + node.url.length, text: target });
  });
  return edits
    .toSorted((a, b) => b.start - a.start)
    .reduce((text, { start, end, text: target }) => text.slice(0, start) + target + text.slice(end), source);
}

/** The address in the site; undefined for what stays as it is. */
function siteAddress(from: string, url: string, resolve: Resolve): string | undefined {
  if (/^([a-z][a-z0-9+.-]*:|\/\/|#)/i.test(url)) return undefined;
  const [, path, anchor] = /^([^#]*)(#.*)?$/.exec(decodeURI(url)) as RegExpExecArray;
  const target = path.startsWith("/") ? posix.join(".", path) : posix.join(posix.dirname(from), path);
  return encodeURI(resolve(target.replace(/\/$/, "")) + (anchor ?? ""));
}

/** Where the destination begins in the source: behind the text of the link, which can itself have links (images). */
function destinationOf(source: string, node: Nodes, url: string): number | undefined {
  const { start, end } = node.position as { start: { offset: number }; end: { offset: number } };
  const children = "children" in node ? node.children : [];
  const from = children.at(-1)?.position?.end.offset ?? start.offset;
  const at = source.lastIndexOf(url, end.offset);
  return at < from ? undefined : at;
}
