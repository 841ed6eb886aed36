import { expect, test } from "./fixture";
import type { Daemon } from "./daemon";

/** Nobody claims it before the test is over. */
const later = () => ({ "Twinbox-Due": new Date(Date.now() + 600_000).toISOString() });

/** However long the page has taken since it was postponed: less than a test may last. */
async function expectDueIn(minutes: number, daemon: Daemon, id: string): Promise<void> {
  const { deliveries } = await daemon.ask("GET", `v1/messages/${id}`);
  const left = (new Date(deliveries[0].visible_at).getTime() - Date.now()) / 60_000;
  expect(left).toBeLessThanOrEqual(minutes);
  expect(left).toBeGreaterThan(minutes - 5);
}

test("what is open is postponed", async ({ serve, reader, page }) => {
  const daemon = await serve();
  for (const id of ["a", "b"]) await daemon.enqueue("order.placed", id, "{}", later());
  await reader.open(daemon, "#/messages?state=open");
  await page.getByRole("button", { name: "Postpone…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("For").selectOption("6h");
  await dialog.getByRole("button", { name: "Postpone 2 messages" }).click();
  await expect(dialog.getByRole("status")).toContainText("2 messages postponed");
  await dialog.getByRole("button", { name: "Close" }).click();
  for (const id of ["a", "b"]) await expectDueIn(360, daemon, id);
});

test("until a time of the reader's own choice", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await daemon.enqueue("order.placed", "one", "{}", later());
  await reader.open(daemon, "#/message?store=main&box=outbox&id=one");
  await page.getByRole("button", { name: "Postpone…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("For").selectOption("until a time…");
  await reader.inspect("postpone_dialog");
  await dialog.getByRole("textbox", { name: "Until" }).fill("2040-01-31T12:30");
  await dialog.getByRole("button", { name: "Postpone 1 message" }).click();
  await expect(dialog.getByRole("status")).toContainText("1 message postponed");
  const { deliveries } = await daemon.ask("GET", "v1/messages/one");
  expect(deliveries[0].visible_at).toMatch(/^2040-01-31T12:30:00/);
});

test("a message is postponed, then discarded", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await daemon.enqueue("order.placed", "one", "{}", later());
  await reader.open(daemon, "#/message?store=main&box=outbox&id=one");
  await page.getByRole("button", { name: "Postpone…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("For").selectOption("1h");
  await dialog.getByRole("button", { name: "Postpone 1 message" }).click();
  await expect(dialog.getByRole("status")).toContainText("1 message postponed");
  await dialog.getByRole("button", { name: "Close" }).click();
  await expectDueIn(60, daemon, "one");
  await expect(page.getByRole("table", { name: "Deliveries" })).toContainText(/due in (5[5-9] min|1 h)/);
  await page.getByRole("button", { name: "Discard…" }).click();
  await dialog.getByLabel("Reason").fill("ordered twice");
  await dialog.getByRole("button", { name: "Discard 1 message" }).click();
  await dialog.getByRole("button", { name: "Close" }).click();
  await expect(page.locator(".bar .state")).toHaveText("discarded");
  await expect(page.getByRole("button", { name: /Requeue|Postpone|Discard|Edit/ })).toHaveCount(0);
});
