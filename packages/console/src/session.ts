// Who is asking, and how are requests sent?
//
// The key is kept for this tab only (session storage) and sent to this server only. A server that runs without authentication needs none.
// Every request tells whether the server answers, so that each page can say it in the same words.

import { connect, type QuiverClient } from "@quiverdb/client";
import { QuiverError } from "@quiverdb/protocol/errors";
import { createContext } from "preact";
import { useContext } from "preact/hooks";

/** What a session tells of the server. */
export type Listener = {
  /** The server no longer accepts the key. */
  readonly lost: () => void;
  /** It answers, or does not. */
  readonly answers: (isAnswering: boolean) => void;
};

/** Statuses with which a proxy says that the server behind it does not answer. */
const gatewayStatuses = [502, 504];

const storageKey = "quiver-key";

export class Session {
  readonly key: string | undefined;
  readonly client: QuiverClient;
  readonly #listener: Listener;

  constructor(key: string | undefined, listener: Listener) {
    this.key = key;
    this.#listener = listener;
    this.client = connect(location.origin, { apiKey: key, retries: 1, fetch: this.#fetch });
  }

  readonly #fetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    try {
      const response = await fetch(input, init);
      if (response.status === 401) this.#listener.lost();
      this.#listener.answers(!gatewayStatuses.includes(response.status));
      return response;
    } catch (error) {
      // What the page itself has given up says nothing about the server.
      if (!(init?.signal?.aborted ?? false)) this.#listener.answers(false);
      throw error;
    }
  };

  /**
   * A request that the client has no method for: the metrics, the description of the interface, whatever a user writes.
   * @throws QuiverError connection_failed
   */
  async send(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.key !== undefined) headers.set("authorization", `Bearer ${this.key}`);
    try {
      return await this.#fetch(path, { ...init, headers });
    } catch (cause) {
      throw new QuiverError("connection_failed", `${path} got no response.`, {}, { cause });
    }
  }
}

export const readKey = (): string | undefined => sessionStorage.getItem(storageKey) ?? undefined;
export const keepKey = (key: string): void => sessionStorage.setItem(storageKey, key);
export const forgetKey = (): void => sessionStorage.removeItem(storageKey);

export const SessionContext = createContext<Session | undefined>(undefined);

/** Whether the server has answered the last request. */
export const AnswersContext = createContext(true);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error("pages are shown in a session");
  return session;
}

export const useClient = (): QuiverClient => useSession().client;
