// How does the parent communicate with an engine's process?

import { type ChildProcess, fork } from "node:child_process";
import type { Answer, Built, Found, Request } from "./worker.ts";

/** An engine in its own process. Each call waits for its response; if the process exits, all later calls fail. */
export class EngineProcess {
  readonly #process: ChildProcess;
  #ended: string | undefined;

  /** `worker` is the path of a module that calls `serve` (worker.ts). */
  constructor(worker: string) {
    this.#process = fork(worker, {
      execArgv: ["--expose-gc", "--disable-warning=ExperimentalWarning"],
      serialization: "advanced",
      // Terminal output of engines would cost time that is not part of the measurement.
      stdio: ["ignore", "ignore", "ignore", "ipc"],
      env: { ...process.env, LANCE_LOG: "off", RUST_LOG: "off" },
    });
    this.#process.once("exit", (code, signal) => {
      this.#ended = `its process ended with ${signal ?? `exit code ${code}`}`;
    });
  }

  /** The built index, or the reason why the engine does not support this set. */
  async build(request: Omit<Request & { act: "build" }, "act">): Promise<Built | { refused: string }> {
    const answer = await this.#ask({ act: "build", ...request });
    if ("built" in answer) return answer.built;
    if ("refused" in answer) return answer;
    throw new Error("error" in answer ? answer.error : "a response to another request");
  }

  async search(request: Omit<Request & { act: "search" }, "act">): Promise<Found> {
    const answer = await this.#ask({ act: "search", ...request });
    if ("found" in answer) return answer.found;
    throw new Error("error" in answer ? answer.error : "a response to another request");
  }

  /** Bytes by which the process has grown since it started. */
  async weigh(): Promise<number> {
    const answer = await this.#ask({ act: "weigh" });
    if ("grownBytes" in answer) return answer.grownBytes;
    throw new Error("error" in answer ? answer.error : "a response to another request");
  }

  end(): void {
    this.#process.kill("SIGKILL");
  }

  #ask(request: Request): Promise<Answer> {
    return new Promise((done, fail) => {
      if (this.#ended !== undefined) return fail(new Error(this.#ended));
      const onExit = () => fail(new Error(this.#ended));
      this.#process.once("exit", onExit);
      this.#process.once("message", (answer: Answer) => {
        this.#process.off("exit", onExit);
        done(answer);
      });
      this.#process.send(request);
    });
  }
}
