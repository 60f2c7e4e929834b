// Which tasks can builder threads run? A kind with tasks has a line here; registry.ts would load all of every kind into each thread.

import type { AnyTask } from "./builders.ts";
import { calibration, graphJobs, truths } from "./dense/tasks.ts";
import { textAnalysis } from "./text/tasks.ts";

const all: readonly AnyTask[] = [graphJobs, calibration, truths, textAnalysis];

/** By name. */
export const builderTasks: ReadonlyMap<string, AnyTask> = new Map(all.map((task) => [task.name, task]));
