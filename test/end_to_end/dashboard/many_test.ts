import { execFileSync } from "node:child_process";
import { join } from "node:path";
import type { Backend, Daemon } from "./daemon";
import { expect, test } from "./fixture";

/** Writes dead letters as a bad night would leave them, while nobody serves the store. */
function makeDead(backend: Backend, daemon: Daemon): void {
  const rows = (series: string, now: string, table: (name: string) => string, payload: string) => [
    `insert into ${table("outbox_message")} (created_at, last_seen_at, content_version, source, id, topic, payload)
     select ${now}, ${now}, 1, '-', 'dead-' || n, case when n % 5 = 0 then 'mail.sent' else 'order.placed' end, ${payload}
     from ${series}`,
    `insert into ${table("outbox_outcome")} (number, finished_at, attempts, state, reason, last_error)
     select number, ${now}, 10, 2, 'max_attempts', 'connection refused by host ' || number
     from ${table("outbox_message")}`,
  ];
  if (backend === "postgres") {
    const sql = rows("generate_series(1, 100000) n", "now()", (name) => `${daemon.schema}_0.${name}`, "'x'::bytea");
    execFileSync("psql", ["-q", "-v", "ON_ERROR_STOP=1", "-d", process.env.TWINBOX_TEST_POSTGRES!, "-c", sql.join(";")]);
    return;
  }
  const series = "(with recursive s(n) as (select 1 union all select n + 1 from s where n < 100000) select n from s)";
  const sql = rows(series, `${Date.now()}000`, (name) => `"${daemon.schema}_0.${name}"`, "x'78'");
  const script = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); [d.execute(s) for s in sys.argv[2:]]; d.commit()";
  execFileSync("python3", ["-c", script, join(daemon.folder, "main.db"), ...sql]);
}

test("a hundred thousand dead letters are two groups, and one of them is discarded", async ({
  serve,
  backend,
  reader,
  page,
}, info) => {
  const daemon = await serve({ config: "" });
  await daemon.stop();
  makeDead(backend, daemon);
  await daemon.start();
  await reader.open(daemon, "#/dead");
  await expect(page.getByText("100,000 messages in 2 groups")).toBeVisible();
  const milliseconds = await page.evaluate(async () => {
    const before = performance.now();
    await (await fetch("v1/dead_letter_groups")).text();
    return performance.now() - before;
  });
  info.annotations.push({ type: "groups", description: `${milliseconds.toFixed(1)} ms` });
  console.log(`\n${backend}: the groups of 100,000 dead letters in ${milliseconds.toFixed(1)} ms`);
  const mail = page.getByRole("listitem").filter({ hasText: "mail.sent" });
  await mail.getByRole("button", { name: "Discard…" }).click();
  const dialog = page.getByRole("dialog", { name: "Discard 20,000 dead letters" });
  await dialog.getByLabel("Reason").fill("nobody reads old mail");
  await dialog.getByRole("button", { name: "Discard 20,000 messages" }).click();
  await expect(dialog.getByRole("status")).toContainText("20,000 messages discarded.");
  await dialog.getByRole("button", { name: "Close" }).click();
  await expect(page.getByText("80,000 messages in 1 group")).toBeVisible();
  await page.getByRole("link", { name: "Show messages" }).click();
  await expect(page.getByRole("row")).toHaveCount(51);
});
