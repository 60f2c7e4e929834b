// How does a page get data, keep it fresh, and say what went wrong?

import { isQuiverError } from "@quiverdb/protocol/errors";
import type { ComponentChildren } from "preact";
import { useCallback, useContext, useEffect, useRef, useState } from "preact/hooks";
import { AnswersContext } from "../session.ts";

/** Milliseconds until a server that did not answer, or was not ready, is asked again. */
const retryMs = 3_000;

export type Loaded<T> = {
  readonly value: T | undefined;
  readonly error: unknown;
  /** Loads again now. */
  readonly refresh: () => void;
};

/**
 * Loads a value, and again after each pause as long as the page is visible. The last value stays until there is another one, also when the
 * dependencies change or a request fails: what must not outlive its dependencies has a `key`. A value that the server could not give is asked
 * for again.
 * @param pauseMs from the end of a request to the next one; a function of the value; 0: once
 */
export function useLoaded<T>(
  load: (signal: AbortSignal) => Promise<T>,
  dependencies: readonly unknown[],
  pauseMs: number | ((value: T | undefined) => number) = 0,
): Loaded<T> {
  const [state, setState] = useState<{ value?: T; error?: unknown }>({});
  const [round, setRound] = useState(0);
  const pause = useRef(pauseMs);
  pause.current = pauseMs;
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const again = (value: T | undefined) => {
      const ms = typeof pause.current === "function" ? pause.current(value) : pause.current;
      if (ms > 0 && !signal.aborted) timer = setTimeout(run, ms);
    };
    const run = () => {
      if (document.hidden) {
        again(undefined);
        return;
      }
      load(signal).then(
        (value) => {
          if (signal.aborted) return;
          setState({ value });
          again(value);
        },
        (error: unknown) => {
          if (signal.aborted) return;
          setState(({ value }) => ({ value, error }));
          if (isQuiverError(error) && error.retryable) timer = setTimeout(run, retryMs);
          else again(undefined);
        },
      );
    };
    run();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [...dependencies, round]);
  const refresh = useCallback(() => setRound((before) => before + 1), []);
  return { value: state.value, error: state.error, refresh };
}

export type Action = {
  readonly isRunning: boolean;
  readonly error: unknown;
  /** Runs it; a failure is kept until the next run. @returns whether it succeeded */
  readonly run: (act: () => Promise<unknown>) => Promise<boolean>;
};

/** Something that the user starts. */
export function useAction(): Action {
  const [isRunning, setRunning] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  const run = useCallback(async (act: () => Promise<unknown>) => {
    setRunning(true);
    setError(undefined);
    try {
      await act();
      return true;
    } catch (thrown) {
      setError(thrown);
      return false;
    } finally {
      setRunning(false);
    }
  }, []);
  return { isRunning, error, run };
}

export function messageOf(error: unknown): string {
  if (isQuiverError(error) && error.code === "forbidden") return `This key may not do that. ${error.message}`;
  if (isQuiverError(error, "connection_failed")) return `The server at ${location.host} does not answer.`;
  return error instanceof Error ? error.message : String(error);
}

/** A failure in words; nothing if there is none. */
export function Failure({ error }: { error: unknown }) {
  if (error === undefined) return null;
  const [said, ...shown] = messageOf(error).split("\n");
  return (
    <div class="failure" role="alert">
      {said}
      {isQuiverError(error) && <code class="code">{error.code}</code>}
      {/* A line of what was written, and a caret below its fault. */}
      {shown.length > 0 && <pre>{shown.join("\n")}</pre>}
    </div>
  );
}

/** A failure to load. That the server does not answer is said at the head of the page. */
export function LoadFailure({ error }: { error: unknown }) {
  const isAnswering = useContext(AnswersContext);
  return !isAnswering && isQuiverError(error, "connection_failed") ? null : <Failure error={error} />;
}

/** What is shown of a value: the page, a failure, or that it is being loaded. */
export function Show<T>({ of, children }: { of: Loaded<T>; children: (value: T) => ComponentChildren }) {
  return (
    <>
      <LoadFailure error={of.error} />
      {of.value !== undefined
        ? children(of.value)
        : of.error === undefined && (
            <p class="muted" role="status">
              Loading…
            </p>
          )}
    </>
  );
}
