import { expect, test } from "./fixture";

const place = (id: string) => `#/message?store=main&box=outbox&id=${encodeURIComponent(id)}`;

test("shows content, headers, timeline and deliveries", async ({ serve, reader, page }) => {
  const daemon = await serve();
  const order = '{"order":7,"total":12345678901234567890,"lines":[{"sku":"A-1","count":2}],"note":""}';
  await daemon.enqueue("payment.captured", "pay-7", order, {
    "Content-Type": "application/json",
    "Twinbox-Correlation-Id": "order-7",
    traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
  });
  await daemon.settled("dead", 1);
  await reader.open(daemon, place("pay-7"));
  await expect(page.getByRole("heading", { name: "payment.captured" })).toBeVisible();
  const content = page.locator("pre.content");
  await expect(content).toContainText('"lines": [\n    {\n      "sku": "A-1"');
  await expect(content, "numbers keep every digit").toContainText("12345678901234567890");
  await page.getByRole("radio", { name: "Raw" }).check();
  await expect(content).toHaveText(order);
  await page.getByRole("radio", { name: "Hex" }).check();
  await expect(content).toContainText('00000000  7b 22 6f 72 64 65 72 22  3a 37 2c 22 74 6f 74 61  {"order":7,"tota');
  await page.getByRole("radio", { name: "Pretty" }).check();
  await expect(page.getByText("Attempt 3 failed")).toBeVisible();
  await expect(page.getByText("Dead-lettered")).toBeVisible();
  await expect(page.getByText("payment gateway refused card 4711").first()).toBeVisible();
  await expect(page.getByText("4bf92f3577b34da6a3ce929d0e0e4736").first()).toBeVisible();
  await expect(page.getByRole("table", { name: "Deliveries" })).toContainText("dead");
  await reader.inspect("message");
  await page.getByRole("link", { name: "order-7" }).click();
  await expect(page.getByRole("link", { name: "pay-7" })).toBeVisible();
  await expect(page).toHaveURL(/correlation_id=order-7/);
});

test("shows what is no text as bytes", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await daemon.enqueue("report.image", "image", Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0xff, 0x00]));
  await reader.open(daemon, place("image"));
  await expect(page.locator("pre.content")).toContainText("00000000  89 50 4e 47 0d 0a ff 00");
  await expect(page.locator("pre.content")).toContainText("·PNG····");
});

test("is requeued, and done when its receiver is well", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await daemon.enqueue("echo.lost", "one", "customer is gone");
  await daemon.settled("dead", 1);
  await reader.open(daemon, place("one"));
  await page.getByRole("button", { name: "Requeue…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Requeue 1 message" }).click();
  await expect(dialog.getByRole("status")).toContainText("1 message requeued");
  await dialog.getByRole("button", { name: "Close" }).click();
  // It fails again: the sink is hopeless.
  await expect(page.getByRole("table", { name: "Deliveries" }).getByRole("row").nth(1)).toContainText("dead");
  await expect(page.getByRole("cell", { name: "1", exact: true }).last()).toBeVisible();
});

test("one that is not there says so", async ({ serve, reader, page }) => {
  const daemon = await serve();
  reader.expected = /404/;
  await reader.open(daemon, place("nowhere"));
  await expect(page.getByText("Message not found.")).toBeVisible();
  await page.getByRole("link", { name: "Show all messages" }).click();
  await expect(page.getByText("The box is empty.")).toBeVisible();
});
