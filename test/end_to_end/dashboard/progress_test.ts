import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import type { Backend, Daemon } from "./daemon";
import { expect, test } from "./fixture";

/** Nobody else can write to the store until the process that is returned has ended. */
async function hold(backend: Backend, daemon: Daemon): Promise<ChildProcess> {
  const script = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1], 60); d.execute('begin immediate'); print('held', flush=True); sys.stdin.read()";
  const child =
    backend === "sqlite"
      ? spawn("python3", ["-c", script, join(daemon.folder, "main.db")], { stdio: ["pipe", "pipe", "inherit"] })
      : spawn("psql", ["-XAtq", process.env.TWINBOX_TEST_POSTGRES!], { stdio: ["pipe", "pipe", "inherit"] });
  if (backend === "postgres") {
    child.stdin.write(`begin; lock table ${daemon.schema}_0.outbox_audit in exclusive mode; select 'held';\n`);
  }
  await new Promise((resume) => child.stdout.once("data", resume));
  return child;
}

test("an operation that takes long shows how far it is, until it is done", async ({ serve, backend, reader, page }) => {
  const daemon = await serve();
  for (const id of ["a", "b", "c"]) await daemon.enqueue("echo.lost", id, "customer is gone");
  await daemon.settled("dead", 3);
  await reader.open(daemon, "#/dead");
  await page.getByRole("button", { name: "Discard…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Reason").fill("they left");
  reader.expected = /404/; // as long as the store has not even written it down
  const holder = await hold(backend, daemon);
  try {
    const followed = page.waitForResponse(/v1\/operations\//);
    await dialog.getByRole("button", { name: "Discard 3 messages" }).click();
    await followed;
    await expect(dialog.getByRole("progressbar", { name: "Progress" })).toBeVisible();
    await expect(dialog.getByRole("status")).toContainText("0 of 3…");
    await reader.inspect("progress");
  } finally {
    holder.stdin!.end();
  }
  await expect(dialog.getByRole("status")).toContainText("3 messages discarded");
  const { messages } = await daemon.ask("GET", "v1/messages?state=discarded");
  expect(messages).toHaveLength(3);
});
