import { createServer, type AddressInfo } from "node:net";
import { expect, test } from "./fixture";

test("a daemon with nothing to do is healthy, and says so first", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await reader.open(daemon);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("healthy");
  await expect(page.getByText("No problems.")).toBeVisible();
  await expect(page.getByRole("region", { name: "outbox" })).toContainText("open0dead0");
  await reader.inspect("overview_empty");
});

test("dead letters make it unhealthy; the reason leads to them", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await reader.open(daemon);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("healthy");
  for (let number = 0; number < 11; ++number) await daemon.enqueue("payment.captured", `payment-${number}`);
  for (let number = 0; number < 40; ++number) await daemon.enqueue("order.placed", `order-${number}`);
  await daemon.enqueue("report.nightly", "later", "{}", { "Twinbox-Due": "2099-01-01T00:00:00Z" });
  await daemon.settled("dead", 11);
  await daemon.settled("done", 40);
  // Without a reload, and without a question from the page.
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("unhealthy");
  await expect(page.getByRole("banner").getByRole("status")).toContainText("unhealthy");
  const outbox = page.getByRole("region", { name: "outbox" });
  await expect(outbox.getByRole("definition").nth(1)).toHaveText("11");
  await expect(page.getByRole("figure", { name: /Throughput/ }).or(page.locator("figure").first())).toBeVisible();
  await reader.inspect("overview");
  await page.getByRole("region", { name: "Verdict" }).getByRole("link", { name: /main/ }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Dead letters");
  await expect(page.getByText("11 messages in 1 group")).toBeVisible();
});

test("what is paused is a reason, which leads to it", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await daemon.enqueue("report.dead pending", "one");
  await daemon.ask("POST", "v1/dispatch/pause", '{"topic":"report.dead pending"}');
  await reader.open(daemon);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("degraded");
  await page.getByRole("region", { name: "Verdict" }).getByRole("link", { name: "everywhere", exact: true }).click();
  await expect(page.getByRole("radio", { name: "Topics" })).toBeChecked();
  await expect(page.getByRole("row").filter({ hasText: "report.dead pending" })).toContainText("paused");
});

test("charts are for a box and a span, which the address keeps", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await reader.open(daemon, "#/?span=24h");
  await expect(page.getByRole("radio", { name: "24 h" })).toBeChecked();
  await page.getByRole("radio", { name: "1 h", exact: true }).check();
  await page.getByRole("radio", { name: "Inbox" }).check();
  await expect(page).toHaveURL(/span=1h/);
  await expect(page).toHaveURL(/chart=inbox/);
  for (const title of ["Throughput", "Error rate", "Backlog", "Oldest delivery", "Handler time"]) {
    await expect(page.getByRole("heading", { name: title })).toBeVisible();
  }
});

test("a lost connection is told with its time, and ends by itself", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await reader.open(daemon);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("healthy");
  reader.expected = /net::ERR_/;
  await daemon.stop();
  // The charts may have asked just then, and say for themselves that there was no answer.
  await expect(page.getByRole("alert").filter({ hasText: /Stale since \d\d:\d\d:\d\d\./ })).toBeVisible();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("unknown");
  await reader.inspect("stale");
  await daemon.start();
  await expect(page.getByRole("alert")).toHaveCount(0);
});

test("numbers come by asking where server-sent events do not come through", async ({ serve, reader, page }) => {
  const daemon = await serve();
  reader.expected = /ERR_FAILED/;
  await page.route("**/v1/overview/stream", (route) => route.abort());
  await reader.open(daemon, "#/messages");
  await expect(page.getByText("The box is empty.")).toBeVisible();
  await daemon.enqueue("report.nightly", "just-now");
  await expect(page.getByRole("link", { name: "just-now" })).toBeVisible();
});

test("a store that cannot be reached is named, and the others are shown", async ({ serve, reader, page }) => {
  // A port that nobody listens on, once it is closed.
  const server = createServer();
  await new Promise<void>((resume) => server.listen(0, "127.0.0.1", resume));
  const { port } = server.address() as AddressInfo;
  const config = `[store.away]\nurl = "postgresql://nobody@127.0.0.1:${port}/nowhere"\ndeploy = false\nwait_timeout = "1s"\n`;
  server.close();
  const daemon = await serve({ more: config });
  await daemon.ask("POST", "v1/outbox/report.nightly?store=main", "{}", { "Idempotency-Key": "one" });
  await reader.open(daemon, "#/stores");
  await expect(page.getByText("Connection refused").first()).toBeVisible();
  await expect(page.getByRole("row").filter({ hasText: "main" }).filter({ hasText: "outbox" })).toContainText("1");
  await reader.picture("unreachable_stores");
  await page.goto(daemon.url + "#/");
  await expect(page.getByText("1 of 2 stores cannot be reached")).toBeVisible();
  await reader.picture("unreachable");
  reader.expected = /50\d/;
  await page.goto(daemon.url + "#/messages?store=away");
  await expect(page.getByRole("alert")).toBeVisible();
  await page.getByLabel("Store").selectOption("main");
  await expect(page.getByRole("link", { name: "one" })).toBeVisible();
});
