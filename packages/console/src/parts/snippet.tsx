// Code that a user takes along.

import { useRef, useState } from "preact/hooks";
import type { Code } from "../code.ts";
import { Choice } from "./inputs.tsx";

export function Snippet({ code }: { code: Code }) {
  const [chosen, setChosen] = useState(code[0][0]);
  const [said, setSaid] = useState("");
  const shown = useRef<HTMLPreElement>(null);
  const text = code.find(([language]) => language === chosen)?.[1] ?? "";
  const copy = async () => {
    try {
      // Absent on a page without HTTPS that is not of this machine.
      await navigator.clipboard.writeText(text);
      setSaid("Copied");
    } catch {
      if (shown.current !== null) getSelection()?.selectAllChildren(shown.current);
      setSaid("The browser does not allow copying here; the code is selected");
    }
  };
  return (
    <div class="fields">
      <div class="buttons">
        <Choice
          label="Language"
          value={chosen}
          options={code.map(([language]) => [language, language] as const)}
          set={(language) => {
            setChosen(language);
            setSaid("");
          }}
        />
        <button type="button" class="small" onClick={copy}>
          Copy as {chosen}
        </button>
        <span class="muted small" role="status">
          {said}
        </span>
      </div>
      <section aria-label={`Code in ${chosen}`}>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: without a place in the order of focus no key scrolls to its end */}
        <pre class="answer" tabIndex={0} ref={shown}>
          {text}
        </pre>
      </section>
    </div>
  );
}
