// How does a benchmark measure one thing in a process of its own?

import { fork } from "node:child_process";

/**
 * Runs a file again with `--only NAME --plan JSON`; resolves with the message that it sends.
 * @param file of the benchmark
 */
export function measuredAside<T>(file: string, name: string, plan: object): Promise<T> {
  return new Promise((done, fail) => {
    const child = fork(file, ["--only", name, "--plan", JSON.stringify(plan)], {
      execArgv: ["--disable-warning=ExperimentalWarning"],
    });
    child.once("message", (measured: T) => done(measured));
    child.once("exit", (code) => fail(new Error(`measuring ${name} ended with exit code ${code}`)));
  });
}
