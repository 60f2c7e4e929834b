// Does every link of the built site lead to something?
//
// Read from the pages as a browser gets them, so that it does not matter what made them: the generator, the API reference, a layout. What a
// link names must be a file of the site, and what stands behind # an element of that page. A page may load nothing from another host.

import { existsSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { type DefaultTreeAdapterTypes, parse } from "parse5";

type Page = { links: readonly string[]; loads: readonly string[]; ids: ReadonlySet<string> };

/** @param files paths of the HTML files, relative to the folder of the site @param checked the files whose links are checked */
export function deadLinks(site: string, base: string, checked: readonly string[]): string[] {
  const pages = new Map<string, Page>();
  const pageOf = (file: string): Page => {
    const page = pages.get(file) ?? readPage(readFileSync(join(site, file), "utf8"));
    pages.set(file, page);
    return page;
  };
  // A dead link of the layout is on every page, and told once.
  const pagesOf = new Map<string, string[]>();
  for (const file of checked) {
    const { links, loads } = pageOf(file);
    const faults = [...new Set(links)].flatMap((link) => {
      const fault = linkFault(site, base, file, link, pageOf);
      return fault === undefined ? [] : [`link "${link}": ${fault}`];
    });
    const foreign = loads.filter((address) => /^([a-z]+:)?\/\//i.test(address));
    for (const fault of [...faults, ...foreign.map((address) => `loads ${address} from another host`)])
      pagesOf.set(fault, [...(pagesOf.get(fault) ?? []), file]);
  }
  return [...pagesOf].map(([fault, [first, ...others]]) => {
    const more = others.length > 0 ? ` (and ${others.length} more)` : "";
    return `${first}${more}: ${fault}`;
  });
}

function linkFault(
  site: string,
  base: string,
  from: string,
  link: string,
  pageOf: (file: string) => Page,
): string | undefined {
  if (/^([a-z][a-z0-9+.-]*:|\/\/)/i.test(link)) return undefined;
  const [, path, hash] = /^([^#?]*)[^#]*#?(.*)$/.exec(decodeURIComponent(link)) as RegExpExecArray;
  if (path.startsWith("/") && !path.startsWith(base)) return `it is outside of ${base}`;
  const target = path.startsWith("/") ? path.slice(base.length) : posix.join(posix.dirname(from), path);
  const file = path === "" ? from : /(^|\/)$/.test(target) ? `${target}index.html` : target;
  if (!existsSync(join(site, file))) return `the site has no ${file}`;
  if (hash === "" || !file.endsWith(".html") || pageOf(file).ids.has(hash)) return undefined;
  return `${file} has nothing called #${hash}`;
}

function readPage(html: string): Page {
  const links: string[] = [];
  const loads: string[] = [];
  const ids = new Set<string>();
  const walk = (node: DefaultTreeAdapterTypes.Node): void => {
    const name = node.nodeName;
    for (const { name: attribute, value } of "attrs" in node ? node.attrs : []) {
      if (attribute === "id") ids.add(value);
      if (attribute === "href" && name === "a") links.push(value);
      if (attribute === "src" || (attribute === "href" && name === "link")) loads.push(value);
    }
    for (const child of "childNodes" in node ? node.childNodes : []) walk(child);
  };
  walk(parse(html));
  return {
    links: [...links, ...loads.filter((address) => !/^(data:|[a-z]+:\/\/)/.test(address))],
    loads,
    ids,
  };
}
