// A table that scrolls sideways where it is wider than the page. On a narrow page each row is a card, with the heading of its column before each
// cell (style.css).

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/** The heading of a column; of one with numbers, which are aligned at the right. */
type Column = string | { readonly number: string };

/**
 * @param hasActions whether a last column has buttons; its heading is for screen readers alone
 * @param children the rows
 */
export function Table({
  columns,
  hasActions = false,
  children,
}: {
  columns: readonly Column[];
  hasActions?: boolean;
  children: ComponentChildren;
}) {
  const box = useRef<HTMLDivElement>(null);
  // What scrolls has a place in the order of focus, so that arrow keys reach its end.
  useLayoutEffect(() => {
    const { current } = box;
    if (current === null) return;
    for (const { cells } of current.querySelector("tbody")?.rows ?? [])
      for (const [i, column] of columns.entries())
        cells[i]?.setAttribute("data-label", typeof column === "string" ? column : column.number);
    if (current.scrollWidth > current.clientWidth) current.setAttribute("tabindex", "0");
    else current.removeAttribute("tabindex");
  });
  return (
    <div class="scroll" ref={box}>
      <table>
        <thead>
          <tr>
            {columns.map((column) =>
              typeof column === "string" ? (
                <th key={column} scope="col">
                  {column}
                </th>
              ) : (
                <th key={column.number} scope="col" class="number">
                  {column.number}
                </th>
              ),
            )}
            {hasActions && (
              <th scope="col">
                <span class="visually-hidden">Actions</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
