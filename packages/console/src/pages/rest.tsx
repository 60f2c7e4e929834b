// What does the server answer to a request that the user writes?

import { useMemo, useState } from "preact/hooks";
import { indented } from "../json-text.ts";
import { addressOf, type OpenapiDocument, type Operation, operationsOf } from "../openapi.ts";
import { bytes, milliseconds } from "../parts/format.ts";
import { Field } from "../parts/inputs.tsx";
import { Failure, Show, useAction, useLoaded } from "../parts/loading.tsx";
import { useSession } from "../session.ts";

export function RestPage() {
  const session = useSession();
  const operations = useLoaded(
    async (signal) => {
      const response = await session.send("/openapi.json", { signal });
      if (!response.ok) throw new Error(`/openapi.json was answered with status ${response.status}.`);
      return operationsOf((await response.json()) as OpenapiDocument);
    },
    [session],
  );
  return (
    <>
      <div class="head">
        <h1>REST</h1>
        <span class="muted small">
          every operation of <a href="/openapi.json">/openapi.json</a>, sent with your key
        </span>
      </div>
      <Show of={operations}>{(all) => <Operations all={all} />}</Show>
    </>
  );
}

function Operations({ all }: { all: readonly Operation[] }) {
  const [wanted, setWanted] = useState("");
  const [key, setKey] = useState("GET /vectordb/collections");
  const chosen = all.find((operation) => operation.key === key) ?? all[0];
  const groups = useMemo(() => {
    const word = wanted.toLowerCase();
    const matching = all.filter((each) => `${each.key} ${each.summary}`.toLowerCase().includes(word));
    return [...Map.groupBy(matching, ({ tag }) => tag)];
  }, [all, wanted]);
  // A collection is written once and stays for the next operation.
  const [values, setValues] = useState<Readonly<Record<string, string>>>({});
  return (
    <div class="split reversed">
      <section class="card" aria-label="Operations">
        <input
          type="search"
          aria-label="Find an operation"
          placeholder="Find an operation"
          value={wanted}
          onInput={(event) => setWanted(event.currentTarget.value)}
        />
        <div class="operations">
          {groups.map(([tag, operations]) => (
            <div key={tag}>
              <h2>{tag}</h2>
              {operations.map((operation) => (
                <button
                  key={operation.key}
                  type="button"
                  aria-pressed={operation === chosen}
                  onClick={() => setKey(operation.key)}
                >
                  <span class="method">{operation.method}</span>
                  <span>{operation.summary}</span>
                </button>
              ))}
            </div>
          ))}
        </div>
      </section>
      <RequestForm key={chosen.key} operation={chosen} values={values} setValues={setValues} />
    </div>
  );
}

type Answer = {
  readonly status: string;
  readonly ms: number;
  readonly size: number;
  readonly requestId: string;
  readonly text: string;
};

/** Longer answers are cut on the page. */
const shownCharsMax = 200_000;

function RequestForm({
  operation,
  values,
  setValues,
}: {
  operation: Operation;
  values: Readonly<Record<string, string>>;
  setValues: (values: Readonly<Record<string, string>>) => void;
}) {
  const session = useSession();
  const { method, path, summary, description, parameters } = operation;
  const [body, setBody] = useState(operation.body ?? "");
  const [answer, setAnswer] = useState<Answer>();
  const action = useAction();
  const shown = parameters.filter((parameter) => parameter.in !== "header");
  const send = () =>
    action.run(async () => {
      const start = performance.now();
      const hasBody = operation.body !== undefined && body.trim() !== "";
      const response = await session.send(addressOf(operation, values), {
        method,
        ...(hasBody && { body, headers: { "content-type": "application/json" } }),
      });
      const text = await response.text();
      setAnswer({
        status: `${response.status} ${response.statusText}`,
        ms: performance.now() - start,
        size: new Blob([text]).size,
        requestId: response.headers.get("x-request-id") ?? "",
        text: indented(text),
      });
    });
  return (
    <div class="stack">
      <form
        class="card fields"
        aria-label={summary}
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
      >
        <h2>{summary}</h2>
        <p class="mono">
          <b>{method}</b> {path}
        </p>
        {description !== "" && <p class="muted small">{description}</p>}
        {shown.map(({ name, required, description: about }) => (
          <Field
            key={name}
            label={`${name}${required ? "" : " (optional)"}${about === undefined ? "" : `: ${about}`}`}
            value={values[name] ?? ""}
            set={(value) => setValues({ ...values, [name]: value })}
          />
        ))}
        {operation.body !== undefined && (
          <label class="field">
            <span>Body (JSON)</span>
            <textarea
              class="body"
              spellcheck={false}
              value={body}
              onInput={(event) => setBody(event.currentTarget.value)}
            />
          </label>
        )}
        <Failure error={action.error} />
        <div class="buttons">
          <button
            type="submit"
            class={method === "DELETE" ? "danger" : "primary"}
            disabled={action.isRunning}
          >
            Send
          </button>
        </div>
      </form>
      {answer !== undefined && (
        <section class="card" aria-label="Answer">
          <p role="status">
            <span class={`badge ${answer.status.startsWith("2") ? "good" : "bad"}`}>{answer.status}</span>{" "}
            {milliseconds(answer.ms)}, {bytes(answer.size)}{" "}
            <span class="muted small">
              request <code>{answer.requestId}</code>
            </span>
          </p>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls must be reachable by keyboard. */}
          <pre class="answer" tabIndex={0}>
            {answer.text.slice(0, shownCharsMax)}
            {answer.text.length > shownCharsMax && "\n…"}
          </pre>
        </section>
      )}
    </div>
  );
}
