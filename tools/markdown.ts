// What does a Markdown document contain: links, anchors, code blocks, numbered rules?
//
// The checks of the links and of the examples read documents as GitHub shows them.

import GithubSlugger from "github-slugger";
import type { Code, Nodes, Root } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { toString as textOf } from "mdast-util-to-string";
import { gfm } from "micromark-extension-gfm";
import { type DefaultTreeAdapterTypes, parseFragment } from "parse5";
import { visit } from "unist-util-visit";

/** Where a thing stands in its document; lines count from 1. */
export type Placed<T> = T & { line: number };

export type CodeBlock = { language: string; flags: readonly string[]; text: string };

/** `code` is the text of a link that is nothing but code: [`Store.read`](store.ts). */
export type Link = { target: string; code?: string };

export type MarkdownDocument = {
  /** Targets of links and images, those in embedded HTML included, as written. */
  links: readonly Placed<Link>[];
  /** What may stand after # in a link to the document: GitHub's names of the headings, and ids in embedded HTML. */
  anchors: ReadonlySet<string>;
  code: readonly Placed<CodeBlock>[];
  /** Ids of the numbered rules: list items that start with **[T3]**. */
  rules: readonly Placed<{ id: string }>[];
};

export function readMarkdown(source: string): MarkdownDocument {
  const tree = fromMarkdown(source, { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] });
  const html = htmlOf(tree);
  return {
    links: [...linksOf(tree), ...html.links].sort((a, b) => a.line - b.line),
    anchors: new Set([...headingNames(tree), ...html.ids]),
    code: codeOf(tree),
    rules: rulesOf(tree),
  };
}

const lineOf = (node: Nodes): number => node.position?.start.line ?? 1;

function linksOf(tree: Root): Placed<Link>[] {
  const links: Placed<Link>[] = [];
  visit(tree, (node) => {
    if (node.type === "link") {
      const [only, ...others] = node.children;
      const code = others.length === 0 && only?.type === "inlineCode" ? only.value : undefined;
      links.push({ target: node.url, line: lineOf(node), code });
    }
    if (node.type === "image" || node.type === "definition")
      links.push({ target: node.url, line: lineOf(node) });
  });
  return links;
}

function headingNames(tree: Root): string[] {
  const slugger = new GithubSlugger();
  const names: string[] = [];
  visit(tree, "heading", (node) => {
    names.push(slugger.slug(textOf(node, { includeHtml: false })));
  });
  return names;
}

function htmlOf(tree: Root): { links: Placed<{ target: string }>[]; ids: string[] } {
  const links: Placed<{ target: string }>[] = [];
  const ids: string[] = [];
  const walk = (node: DefaultTreeAdapterTypes.Node, line: number): void => {
    for (const { name, value } of "attrs" in node ? node.attrs : []) {
      if (name === "href" || name === "src") links.push({ target: value, line });
      if (name === "id" || name === "name") ids.push(value);
    }
    for (const child of "childNodes" in node ? node.childNodes : []) walk(child, line);
  };
  visit(tree, "html", (node) => walk(parseFragment(node.value), lineOf(node)));
  return { links, ids };
}

function codeOf(tree: Root): Placed<CodeBlock>[] {
  const blocks: Placed<CodeBlock>[] = [];
  visit(tree, "code", (node: Code) => {
    const flags = (node.meta ?? "").split(/\s+/).filter((flag) => flag !== "");
    blocks.push({ language: node.lang ?? "", flags, text: node.value, line: lineOf(node) });
  });
  return blocks;
}

function rulesOf(tree: Root): Placed<{ id: string }>[] {
  const rules: Placed<{ id: string }>[] = [];
  visit(tree, "listItem", (item) => {
    const paragraph = item.children[0];
    const start = paragraph?.type === "paragraph" ? paragraph.children[0] : undefined;
    const id = start?.type === "strong" ? /^\[([A-Z]+\d+)\]$/.exec(textOf(start))?.[1] : undefined;
    if (id !== undefined) rules.push({ id, line: lineOf(item) });
  });
  return rules;
}
