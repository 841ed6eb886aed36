// What every test here has: a daemon of its own backend, a reader with a role, an eye for faults.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test as plain, expect, type Page } from "@playwright/test";
import { Daemon, tokens, type Backend, type Options } from "./daemon";

const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const folder = process.env.TWINBOX_SCREENSHOTS ?? "screenshot";

interface Given {
  backend: Backend;
  /** Starts a daemon that ends with the test. */
  serve: (options?: Partial<Options>) => Promise<Daemon>;
  reader: Reader;
}

export const test = plain.extend<Given>({
  backend: async ({}, use, info) => {
    await use(info.project.metadata.backend as Backend);
  },
  serve: async ({ backend }, use) => {
    const daemons: Daemon[] = [];
    await use(async (options = {}) => {
      const daemon = new Daemon({ backend, ...options });
      daemons.push(daemon);
      return daemon.start();
    });
    for (const daemon of daemons) await daemon.end();
  },
  reader: async ({ page, backend }, use) => {
    const reader = new Reader(page, backend);
    await use(reader);
    expect(reader.faults, "nothing is said on the console, no request leaves the host").toEqual([]);
  },
});

export { expect };

/** Somebody before the page. */
export class Reader {
  readonly faults: string[] = [];
  /** Faults that a test brings about itself. */
  expected: RegExp | null = null;
  private daemon: Daemon | null = null;

  constructor(
    readonly page: Page,
    private readonly backend: Backend,
  ) {
    const note = (text: string) => {
      if (!this.expected?.test(text)) this.faults.push(text);
    };
    page.on("pageerror", (error) => note(String(error)));
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") note(message.text());
    });
    page.on("request", (request) => {
      const { host, protocol } = new URL(request.url());
      if (protocol.startsWith("http") && this.daemon && host !== new URL(this.daemon.url).host) note(request.url());
    });
  }

  /** Opens a place of the page, logged in. */
  async open(daemon: Daemon, place = "#/", role: "operate" | "read" | null = "operate"): Promise<void> {
    this.daemon = daemon;
    // Shares its cookies with the page.
    if (role) await this.page.request.post(daemon.url + "v1/login", { data: { token: tokens[role] } });
    await this.page.goto(daemon.url + place);
  }

  async theme(theme: "light" | "dark"): Promise<void> {
    await this.page.emulateMedia({ colorScheme: theme });
  }

  /** Keeps a picture of the page. */
  async picture(name: string): Promise<void> {
    await this.page.screenshot({ path: join(folder, this.backend, `${name}.png`), animations: "disabled" });
  }

  /** No serious finding of axe-core in either theme; a picture of each, and of the narrow page. */
  async inspect(name: string): Promise<void> {
    for (const theme of ["light", "dark"] as const) {
      await this.theme(theme);
      expect(await this.findings(), `axe on ${name}, ${theme}`).toEqual([]);
      await this.picture(`${name}_${theme}`);
    }
    await this.theme("light");
    const size = this.page.viewportSize()!;
    await this.page.setViewportSize({ width: 360, height: 740 });
    // Charts follow the width a moment later.
    const width = () => this.page.evaluate(() => document.documentElement.scrollWidth);
    await expect.poll(width, `${name} fits in 360 px`).toBe(360);
    expect(await this.findings(), `axe on ${name}, narrow`).toEqual([]);
    await this.picture(`${name}_narrow`);
    await this.page.setViewportSize(size);
  }

  private async findings(): Promise<string[]> {
    // By the debugger, not by a script element: the page's own policy would refuse that.
    return this.page.evaluate(async (source) => {
      const scope = window as any;
      if (!scope.axe) (0, eval)(source);
      const { violations } = await scope.axe.run(document, {
        resultTypes: ["violations"],
        runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
      });
      return violations
        .filter((finding: any) => finding.impact === "serious" || finding.impact === "critical")
        .map((finding: any) => `${finding.id}: ${finding.nodes.map((node: any) => node.target.join(" ")).join(", ")}`);
    }, axe);
  }
}
