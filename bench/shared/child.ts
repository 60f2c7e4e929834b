// How does a benchmark run something in a process of its own?

import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import type { Answer, Request } from "./worker.ts";

/** An engine in its own process. Each call waits for its response; if the process exits, all later calls fail. */
export class EngineProcess {
  readonly #process: ChildProcess;
  #ended: string | undefined;

  /** @param subject that the engine belongs to (subjects.ts) */
  constructor(subject: string) {
    this.#process = fork(join(import.meta.dirname, "worker.ts"), [subject], {
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

  /** @throws if the engine fails or refuses */
  async ask(request: Request): Promise<Answer> {
    const answer = await this.#send(request);
    const failure = answer.error ?? answer.refused;
    if (failure !== undefined) throw new Error(failure);
    return answer;
  }

  end(): void {
    this.#process.kill("SIGKILL");
  }

  #send(request: Request): Promise<Answer> {
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

const asideFlag = "--aside";

/**
 * Runs a benchmark's file again with a plan, in a process of its own; resolves with what it hands to `answerAside` there.
 * @param file of the benchmark
 */
export function measuredAside<Plan, Result>(file: string, plan: Plan): Promise<Result> {
  return new Promise((done, fail) => {
    const child = fork(file, [asideFlag, JSON.stringify(plan)], {
      execArgv: ["--disable-warning=ExperimentalWarning"],
    });
    child.once("message", (measured: Result) => done(measured));
    child.once("exit", (code) => fail(new Error(`measuring ended with exit code ${code}`)));
  });
}

/** In such a process: measures, answers and exits; resolves to false in any other. */
export async function answerAside<Plan>(measure: (plan: Plan) => Promise<unknown>): Promise<boolean> {
  const [flag, plan] = process.argv.slice(2);
  if (flag !== asideFlag) return false;
  const measured = await measure(JSON.parse(plan));
  await new Promise((sent) => process.send?.(measured, sent));
  process.exit(0);
}
