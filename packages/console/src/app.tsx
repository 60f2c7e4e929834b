// What frame do all pages have, and who may see them?

import { isQuiverError } from "@quiverdb/protocol/errors";
import type { ComponentChildren } from "preact";
import { useCallback, useContext, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { CollectionPage } from "./pages/collection.tsx";
import { CollectionsPage } from "./pages/collections.tsx";
import { KeysPage } from "./pages/keys.tsx";
import { MetricsPage } from "./pages/metrics.tsx";
import { RestPage } from "./pages/rest.tsx";
import { messageOf } from "./parts/loading.tsx";
import { hrefOf, type Route, useRoute } from "./route.ts";
import {
  AnswersContext,
  forgetKey,
  keepKey,
  readKey,
  Session,
  SessionContext,
  useSession,
} from "./session.ts";

type State =
  | { readonly name: "entering" }
  | { readonly name: "asking"; readonly reason?: string }
  | { readonly name: "open"; readonly session: Session };

/** Milliseconds from one question whether the server answers to the next. */
const pulseMs = 3_000;

export function App() {
  const [state, setState] = useState<State>({ name: "entering" });
  const [isAnswering, setAnswering] = useState(true);
  const enter = useCallback(async (key: string | undefined) => {
    setState({ name: "entering" });
    let isOpen = false;
    const session = new Session(key, {
      lost() {
        if (!isOpen) return;
        forgetKey();
        setState({ name: "asking", reason: "The key is no longer valid. Enter another one." });
      },
      answers: setAnswering,
    });
    try {
      await session.client.listCollections({ retries: 0 });
      isOpen = true;
      if (key !== undefined) keepKey(key);
      setState({ name: "open", session });
    } catch (error) {
      const needsKey = isQuiverError(error, "unauthorized");
      if (needsKey) forgetKey();
      setState({ name: "asking", reason: needsKey && key === undefined ? undefined : messageOf(error) });
    }
  }, []);
  useEffect(() => void enter(readKey()), [enter]);
  if (state.name === "entering")
    return (
      <p class="entering" role="status">
        Connecting…
      </p>
    );
  if (state.name === "asking") return <SignIn reason={state.reason} enter={enter} />;
  const leave = () => {
    forgetKey();
    setState({ name: "asking" });
  };
  return (
    <SessionContext.Provider value={state.session}>
      <AnswersContext.Provider value={isAnswering}>
        <Frame leave={state.session.key === undefined ? undefined : leave} />
      </AnswersContext.Provider>
    </SessionContext.Provider>
  );
}

function SignIn({
  reason,
  enter,
}: {
  reason: string | undefined;
  enter: (key: string | undefined) => Promise<void>;
}) {
  const [key, setKey] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const onSubmit = (event: Event) => {
    event.preventDefault();
    void enter(key.trim());
  };
  return (
    <main class="sign-in">
      <form onSubmit={onSubmit} class="card">
        <h1>
          <Brand />
        </h1>
        <label class="field">
          <span>Key</span>
          <input
            type="password"
            value={key}
            onInput={(event) => setKey(event.currentTarget.value)}
            autocomplete="off"
            ref={field}
            required
          />
        </label>
        {reason !== undefined && (
          <p class="failure" role="alert">
            {reason}
          </p>
        )}
        <button type="submit" class="primary">
          Sign in
        </button>
        <p class="muted small">
          The admin key or an API key of this server. It is kept in this tab and sent to {location.host} only.
          The first start of a server writes its admin key to <code>admin-key</code> in the data directory.
        </p>
      </form>
    </main>
  );
}

const Brand = () => (
  <span class="brand">
    <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
      <path d="M6 26 24 8M15 6h11v11M6 26v-7M6 26h7" />
    </svg>
    Quiver
  </span>
);

const sections: readonly (readonly [path: string, label: string])[] = [
  ["collections", "Collections"],
  ["metrics", "Metrics"],
  ["keys", "Keys and audit"],
  ["rest", "REST"],
];

function Frame({ leave }: { leave: (() => void) | undefined }) {
  const route = useRoute();
  const isAnswering = usePulse();
  const [section = "collections"] = route.path;
  const main = useRef<HTMLElement>(null);
  const place = route.path.slice(0, 3).join("/");
  const first = useRef(place);
  // Before the next key is pressed.
  useLayoutEffect(() => {
    document.title = [...route.path].reverse().concat("Quiver").join(" · ");
    // As after the load of a page, the keyboard goes on from the beginning of the new one.
    if (first.current !== place) main.current?.focus();
    first.current = place;
  }, [place]);
  return (
    <div class="frame">
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to the page
      </button>
      <nav aria-label="Console">
        <a href={hrefOf(["collections"])} aria-label="Quiver, all collections">
          <Brand />
        </a>
        <ul>
          {sections.map(([path, label]) => (
            <li key={path}>
              <a href={hrefOf([path])} aria-current={section === path ? "page" : undefined}>
                {label}
              </a>
            </li>
          ))}
          <li>
            <a href="/docs">API reference</a>
          </li>
        </ul>
        <div class="foot">
          <span class="muted small">{location.host}</span>
          {leave !== undefined && (
            <button type="button" class="small" onClick={leave}>
              Sign out
            </button>
          )}
        </div>
      </nav>
      <main ref={main} id="main" tabIndex={-1}>
        {!isAnswering && (
          <p class="failure" role="alert">
            The server at {location.host} does not answer. This page goes on as soon as it is back.
          </p>
        )}
        <Page route={route} />
      </main>
    </div>
  );
}

/** Whether the server answers: asked again and again, because not every page sends requests by itself. */
function usePulse(): boolean {
  const session = useSession();
  useEffect(() => {
    const ask = () => {
      // What it answers, its listener is told.
      if (!document.hidden) session.send("/health/live").catch(() => undefined);
    };
    const timer = setInterval(ask, pulseMs);
    return () => clearInterval(timer);
  }, [session]);
  return useContext(AnswersContext);
}

function Page({ route }: { route: Route }): ComponentChildren {
  const [section = "collections", name, tab] = route.path;
  switch (section) {
    case "collections":
      return name === undefined ? (
        <CollectionsPage />
      ) : (
        <CollectionPage key={name} name={name} tab={tab ?? "overview"} query={route.query} />
      );
    case "metrics":
      return <MetricsPage />;
    case "keys":
      return <KeysPage />;
    case "rest":
      return <RestPage />;
    default:
      return (
        <>
          <h1>There is no page at this address</h1>
          <p>
            <a href={hrefOf(["collections"])}>All collections</a>
          </p>
        </>
      );
  }
}
