// When does a process have nothing to do any more?

import { setTimeout as sleep } from "node:timers/promises";

/** Processor time of this process until now. */
export function ownCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** Waits until a process does nothing any more: its indexes are built and measured. @param cpuMs its processor time until now */
export async function untilQuiet(cpuMs: () => Promise<number> | number, quietMs = 30): Promise<void> {
  const lookMs = 1_000;
  const looks = 3;
  for (let before = await cpuMs(), quiet = 0; quiet < looks; ) {
    await sleep(lookMs);
    const now = await cpuMs();
    quiet = now - before < quietMs ? quiet + 1 : 0;
    before = now;
  }
}
