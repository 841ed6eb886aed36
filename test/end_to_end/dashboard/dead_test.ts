import { expect, test } from "./fixture";

test("dead letters that look alike stand together, and are requeued and discarded together", async ({
  serve,
  reader,
  page,
}) => {
  const daemon = await serve();
  for (let number = 0; number < 7; ++number) await daemon.enqueue("payment.captured", `payment-${number}`);
  for (let number = 0; number < 3; ++number) {
    await daemon.enqueue("echo.lost", `lost-${number}`, `customer ${number} is gone`);
  }
  await daemon.settled("dead", 10);
  await daemon.ask("POST", "v1/dispatch/pause", "{}");
  await reader.open(daemon, "#/dead");
  await expect(page.getByText("10 messages in 2 groups")).toBeVisible();
  const lost = page.getByRole("listitem").filter({ hasText: "customer # is gone" });
  const payments = page.getByRole("listitem").filter({ hasText: "payment.captured" });
  await expect(payments.locator("b")).toHaveText("7");
  await reader.inspect("dead");

  await lost.getByRole("link", { name: "Show messages of echo.lost" }).click();
  await expect(page.getByRole("row")).toHaveCount(4);
  await page.goBack();

  await lost.getByRole("button", { name: "Discard…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Reason").fill("they left");
  await dialog.getByRole("button", { name: "Discard 3 messages" }).click();
  await expect(dialog.getByRole("status")).toContainText("3 messages discarded");
  await dialog.getByRole("button", { name: "Close" }).click();
  await expect(lost).toHaveCount(0);

  await payments.getByRole("button", { name: "Requeue…" }).click();
  await dialog.getByRole("button", { name: "Requeue 7 messages" }).click();
  await expect(dialog.getByRole("status")).toContainText("7 messages requeued");
  await dialog.getByRole("button", { name: "Close" }).click();
  await expect(page.getByText("No dead letters.")).toBeVisible();
  await expect(page.getByText("No problems.")).toBeVisible();
  await reader.picture("dead_empty");
});
