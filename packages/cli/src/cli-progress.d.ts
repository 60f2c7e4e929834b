// Which parts of cli-progress do we use? (The package has no types.)

declare module "cli-progress" {
  export type BarOptions = {
    format?: string;
    stream?: NodeJS.WritableStream;
    barsize?: number;
    hideCursor?: boolean;
    clearOnComplete?: boolean;
    fps?: number;
    etaBuffer?: number;
  };
  export type Preset = { format: string; barCompleteChar: string; barIncompleteChar: string };

  export class SingleBar {
    constructor(options: BarOptions, preset?: Preset);
    start(total: number, value: number, payload?: Record<string, unknown>): void;
    update(value: number, payload?: Record<string, unknown>): void;
    stop(): void;
  }

  const exported: { SingleBar: typeof SingleBar; Presets: { shades_classic: Preset } };
  export default exported;
}
