// How does a client log in over HTTP?

import { json } from "../json-answer.ts";
import type { Handlers } from "./handlers.ts";

export const sessionHandlers: Handlers<"createSession"> = {
  createSession: async ({ gate, body, address }) =>
    json(await gate.logIn(body.username, body.password, address)),
};
