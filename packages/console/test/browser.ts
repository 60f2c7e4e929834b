// How does a test see the console as a user does?
//
// A real browser, the one that is installed on the machine: nothing is downloaded.

import { existsSync } from "node:fs";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";

const paths = [
  process.env.QUIVER_CHROMIUM,
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
];

/** Undefined if the machine has none. */
export const browserPath: string | undefined = paths.find((path) => path !== undefined && existsSync(path));

/** For the title of tests that are skipped. */
export const skipReason = browserPath === undefined ? " (skipped: this machine has no Chromium)" : "";

export const openBrowser = (): Promise<Browser> =>
  chromium.launch({
    executablePath: browserPath,
    // In a container there is neither a sandbox of the kernel nor a graphics card.
    args: ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
  });

export type Look = "light" | "dark";

/** A tab, with everything that went wrong in it. */
export class Tab {
  readonly page: Page;
  readonly url: string;
  readonly #context: BrowserContext;
  /** Errors of scripts and of the content security policy, and requests to other hosts. */
  readonly faults: string[] = [];
  /** Authorization headers by path. */
  readonly keys = new Map<string, string | undefined>();

  private constructor(context: BrowserContext, page: Page, url: string) {
    this.#context = context;
    this.page = page;
    this.url = url;
    page.on("pageerror", (error) => this.faults.push(error.message));
    page.on("console", (message) => {
      // That a request was refused is in this log, too.
      const isRefusal = message.text().startsWith("Failed to load resource");
      if (message.type() === "error" && !isRefusal) this.faults.push(message.text());
    });
    page.on("request", (request) => {
      const { origin, pathname } = new URL(request.url());
      if (origin !== url && request.url() !== "about:blank") this.faults.push(`request to ${request.url()}`);
      this.keys.set(pathname, request.headers().authorization);
    });
  }

  static async open(browser: Browser, url: string, look: Look = "light"): Promise<Tab> {
    const viewport = { width: 1280, height: 860 };
    const context = await browser.newContext({ colorScheme: look, viewport, reducedMotion: "reduce" });
    context.setDefaultTimeout(20_000);
    const page = await context.newPage();
    const tab = new Tab(context, page, url);
    await page.goto(url);
    return tab;
  }

  async signIn(key: string): Promise<void> {
    await this.page.getByLabel("Key").fill(key);
    await this.page.getByRole("button", { name: "Sign in" }).click();
    await this.page.getByRole("navigation", { name: "Console" }).waitFor();
  }

  /** Shows a page of the console. @param path after `#/` */
  async go(path: string): Promise<void> {
    await this.page.goto(`${this.url}/#/${path}`);
  }

  close(): Promise<void> {
    return this.#context.close();
  }
}
