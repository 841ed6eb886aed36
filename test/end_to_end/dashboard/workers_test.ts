import { hostname } from "node:os";
import { expect, test } from "./fixture";

test("workers are shown with their leases, and what tidies up", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await daemon.enqueue("order.placed", "a");
  await reader.open(daemon, "#/workers");
  const workers = page.getByRole("table", { name: "Workers" });
  await expect(workers).toContainText(hostname());
  await expect(workers).toContainText("0.1.0");
  await expect(page.getByRole("table", { name: "Housekeeping" })).toContainText("reap");
  await reader.inspect("workers");
});

test("the audit tells who did what, when, to how many, and why", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await reader.open(daemon, "#/audit");
  await expect(page.getByText("No operations.")).toBeVisible();
  for (const id of ["a", "b"]) await daemon.enqueue("echo.lost", id, "customer is gone");
  await daemon.settled("dead", 2);
  await page.goto(daemon.url + "#/dead");
  await page.getByRole("button", { name: "Discard…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Reason").fill("they left for good");
  await dialog.getByRole("button", { name: "Discard 2 messages" }).click();
  await dialog.getByRole("button", { name: "Close" }).click();
  await page.getByRole("link", { name: "Audit" }).click();
  const row = page.getByRole("row").nth(1);
  await expect(row).toContainText("anna");
  await expect(row).toContainText("discard");
  await expect(row).toContainText("2");
  await expect(row).toContainText("they left for good");
  await reader.inspect("audit");
  await page.getByLabel("Box").selectOption("inbox");
  await expect(page.getByText("No operations.")).toBeVisible();
});
