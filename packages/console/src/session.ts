// Who is asking, and how are requests sent?
//
// The key is kept for this tab only (session storage) and sent to this server only. A server that runs without authentication needs none.

import { connect, type QuiverClient } from "@quiverdb/client";
import { createContext } from "preact";
import { useContext } from "preact/hooks";

const storageKey = "quiver-key";

export class Session {
  readonly key: string | undefined;
  readonly client: QuiverClient;
  readonly #lost: () => void;

  /** @param lost called when the server no longer accepts the key */
  constructor(key: string | undefined, lost: () => void) {
    this.key = key;
    this.#lost = lost;
    this.client = connect(location.origin, { apiKey: key, retries: 1, fetch: this.#fetch });
  }

  readonly #fetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const response = await fetch(input, init);
    if (response.status === 401) this.#lost();
    return response;
  };

  /** A request that the client has no method for: the metrics, the description of the interface, whatever a user writes. */
  send(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.key !== undefined) headers.set("authorization", `Bearer ${this.key}`);
    return this.#fetch(path, { ...init, headers });
  }
}

export const readKey = (): string | undefined => sessionStorage.getItem(storageKey) ?? undefined;
export const keepKey = (key: string): void => sessionStorage.setItem(storageKey, key);
export const forgetKey = (): void => sessionStorage.removeItem(storageKey);

export const SessionContext = createContext<Session | undefined>(undefined);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error("pages are shown in a session");
  return session;
}

export const useClient = (): QuiverClient => useSession().client;
