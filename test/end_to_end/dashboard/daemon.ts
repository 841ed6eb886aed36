// Starts the real program, talks to it, and stops it.
import { type ChildProcess, spawn, execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const program = process.env.TWINBOX_PROGRAM ?? "build/bin/twinbox";

export type Backend = "sqlite" | "postgres";

/** Tokens that every daemon here knows, by role. */
export const tokens = { operate: "anna-" + "a".repeat(40), read: "ben-" + "b".repeat(40) };
const admin = "test-" + "t".repeat(40);

const tokenFile = [
  ["anna", "operate", tokens.operate],
  ["ben", "read", tokens.read],
  ["test", "admin", admin],
]
  .map(([name, role, token]) => `${name} ${role} ${createHash("sha256").update(token!).digest("hex")}\n`)
  .join("");

const routes = `
[retry.none]
max_attempts = 1
[retry.quick]
first_delay = "50ms"
max_attempts = 3
[sink.well]
type = "log"
[sink.broken]
type = "command"
command = ["sh", "-c", "echo 'payment gateway refused card 4711 of customer 0815' >&2; exit 1"]
[sink.hopeless]
type = "command"
command = ["sh", "-c", "cat >&2; exit 65"]
[[route]]
topic = "order.#"
sink = "well"
[[route]]
name = "payments"
topic = "payment.#"
sink = "broken"
retry = "quick"
[[route]]
name = "echo"
topic = "echo.#"
sink = "hopeless"
retry = "none"
[[route]]
name = "parked"
topic = "#"
sink = "well"
enabled = false
[[route]]
name = "arrivals"
box = "inbox"
topic = "#"
sink = "well"
`;

export interface Options {
  backend: Backend;
  stores?: string[];
  config?: string;
  /** More of the configuration, before the rest and inside [access]. */
  before?: string;
  access?: string;
  /** And after it. */
  more?: string;
  /** False: none, as at the first start. */
  withTokens?: boolean;
}

export class Daemon {
  readonly folder = mkdtempSync(join(tmpdir(), "twinbox_dashboard_"));
  /** That of the first store is followed by _0, of the second by _1. */
  readonly schema = "d" + randomBytes(6).toString("hex");
  /** Where `enqueue` and `settled` look. */
  private readonly store: string;
  private process: ChildProcess | null = null;
  private output = "";
  private stopping = false;
  port = 0;

  constructor(options: Options) {
    const { backend, stores = ["main"], config = routes, before = "", access = "loopback_without_token = true\n", more = "", withTokens = true } = options;
    this.store = stores[0]!;
    const tables = stores.map((name, index) => {
      const url = backend === "sqlite" ? `sqlite:${name}.db` : process.env.TWINBOX_TEST_POSTGRES!;
      // Longer than any test holds a lock: what waits for one must not fail on a slow machine.
      return `[store.${name}]\nurl = "${url}"\nschema = "${this.schema}_${index}"\nconnections = 4\nwait_timeout = "4m"\n`;
    });
    if (withTokens) writeFileSync(join(this.folder, "tokens"), tokenFile, { mode: 0o600 });
    writeFileSync(
      join(this.folder, "twinbox.toml"),
      `${before}[access]\ntoken_file = "tokens"\n${access}[log]\naccess = false\n${tables.join("")}\n${config}${more}`,
    );
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/`;
  }

  /** On the same port again after a stop, so that pages find it. */
  async start(): Promise<this> {
    const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("TWINBOX_")));
    const child = spawn(program, ["serve", "--config", "twinbox.toml"], {
      cwd: this.folder,
      env: { ...environment, TWINBOX_SERVER_LISTEN: `127.0.0.1:${this.port}` },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.process = child;
    this.output = "";
    this.stopping = false;
    await new Promise<void>((resolve, reject) => {
      const read = (data: Buffer) => {
        this.output += data.toString();
        const found = /listening .*address=\S+:(\d+)/.exec(this.output);
        if (!found) return;
        this.port = Number(found[1]);
        resolve();
      };
      child.stdout.on("data", read);
      child.stderr.on("data", read);
      child.on("exit", (code, signal) => {
        if (!this.stopping) console.log(`\nthe daemon ended with ${code ?? signal}:\n${this.output}`);
        reject(new Error(`the daemon ended with ${code ?? signal}`));
      });
    });
    return this;
  }

  /** The link that the first start prints. */
  async loginLink(): Promise<string> {
    for (;;) {
      const found = /https?:\/\/\S+#token=\S+/.exec(this.output);
      if (found) return found[0];
      await new Promise((resume) => this.process!.stdout!.once("data", resume));
    }
  }

  async ask(method: string, path: string, body?: string | Buffer, headers: Record<string, string> = {}): Promise<any> {
    const answer = await fetch(this.url + path, {
      method,
      headers: { Authorization: `Bearer ${admin}`, ...headers },
      ...(body !== undefined && { body: typeof body === "string" ? body : new Uint8Array(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  }

  enqueue(topic: string, id: string, body: string | Buffer = "{}", headers: Record<string, string> = {}): Promise<any> {
    const path = `v1/outbox/${encodeURIComponent(topic)}?store=${this.store}`;
    return this.ask("POST", path, body, { "Idempotency-Key": id, ...headers });
  }

  /** Waits until so many messages are in the state. */
  async settled(state: string, number: number, query = ""): Promise<void> {
    for (;;) {
      const page = await this.ask("GET", `v1/messages?store=${this.store}&state=${state}&limit=1000${query}`);
      if (page.messages.length >= number) return;
      await new Promise((resume) => setTimeout(resume, 20));
    }
  }

  async stop(): Promise<void> {
    const child = this.process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    this.stopping = true;
    const ended = new Promise((resume) => child.once("exit", resume));
    child.kill("SIGTERM");
    await ended;
  }

  async end(): Promise<void> {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** The program's own command line, beside the daemon. */
  command(...args: string[]): string {
    return execFileSync(program, args, { cwd: this.folder, encoding: "utf8" });
  }
}
