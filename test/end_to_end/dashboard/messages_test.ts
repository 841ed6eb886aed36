import { expect, test } from "./fixture";

test("the filter of the form is in the address, and the address fills the form", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await daemon.enqueue("echo.lost", "a", "customer is gone", { "Twinbox-Correlation-Id": "story-1" });
  await daemon.enqueue("echo.lost", "b", "address is wrong");
  await daemon.enqueue("order.placed", "c");
  await daemon.settled("dead", 2);
  await reader.open(daemon, "#/messages");
  await expect(page.getByRole("row")).toHaveCount(4);
  await page.getByLabel("State").selectOption("dead");
  await expect(page.getByRole("row")).toHaveCount(3);
  await page.getByLabel("Error contains").fill("address");
  await page.getByRole("button", { name: "Filter" }).click();
  await expect(page.getByRole("row")).toHaveCount(2);
  await expect(page.getByRole("link", { name: "b", exact: true })).toBeVisible();
  await expect(page).toHaveURL(/state=dead/);
  await expect(page).toHaveURL(/error_contains=address/);

  await page.goto(daemon.url + "#/messages?correlation_id=story-1");
  await expect(page.getByLabel("Correlation id")).toHaveValue("story-1");
  await expect(page.getByRole("row")).toHaveCount(2);
  await page.goto(daemon.url + "#/messages?topic=order.placed");
  await expect(page.getByRole("link", { name: "c", exact: true })).toBeVisible();
  await expect(page.getByRole("row")).toHaveCount(2);
  await page.goto(daemon.url + "#/messages?created_before=2020-01-01T00:00:00Z");
  await expect(page.getByText("No matches.")).toBeVisible();
  await expect(page.getByLabel("Created before")).toHaveValue("2020-01-01T00:00");
  await page.getByRole("button", { name: "Clear" }).click();
  await expect(page.getByRole("row")).toHaveCount(4);
});

test("pages go on where the last one ended, and back", async ({ serve, reader, page }) => {
  const daemon = await serve();
  for (let number = 0; number < 60; ++number) await daemon.enqueue("report.nightly", `report-${number}`);
  await reader.open(daemon, "#/messages");
  await expect(page.getByRole("row")).toHaveCount(51);
  await page.getByRole("link", { name: "Older" }).click();
  await expect(page.getByRole("row")).toHaveCount(11);
  await expect(page.getByRole("link", { name: "report-0", exact: true })).toBeVisible();
  await expect(page.getByRole("link", { name: "Older" })).toHaveCount(0);
  await page.getByRole("link", { name: "Newest" }).click();
  await expect(page.getByRole("link", { name: "report-59" })).toBeVisible();
  await page.goBack();
  await expect(page.getByRole("link", { name: "report-0", exact: true })).toBeVisible();
});

test("what is enqueued appears without a reload", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await reader.open(daemon, "#/messages");
  await expect(page.getByText("The box is empty.")).toBeVisible();
  await daemon.enqueue("report.nightly", "just-now");
  await expect(page.getByRole("link", { name: "just-now" })).toBeVisible();
});

test("all matching messages are requeued after their number was agreed to", async ({ serve, reader, page }) => {
  const daemon = await serve();
  for (let number = 0; number < 12; ++number) await daemon.enqueue("echo.lost", `lost-${number}`, "customer is gone");
  for (let number = 0; number < 3; ++number) await daemon.enqueue("payment.due", `payment-${number}`);
  await daemon.settled("dead", 15);
  await reader.open(daemon, "#/messages?state=dead&topic=echo.lost");
  await expect(page.getByRole("row")).toHaveCount(13);
  await reader.inspect("messages");
  await daemon.ask("POST", "v1/dispatch/pause", "{}");
  await page.getByRole("button", { name: "Requeue…" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("12 messages in the outbox of main");
  await reader.inspect("requeue_dialog");
  await dialog.getByLabel("Reason").fill("the customer is back");
  await dialog.getByRole("button", { name: "Requeue 12 messages" }).click();
  await expect(dialog.getByRole("status")).toContainText("12 messages requeued");
  await dialog.getByRole("button", { name: "Close" }).click();
  await expect(page.getByText("No dead letters.")).toBeVisible();
  const left = await daemon.ask("GET", "v1/messages?state=dead");
  expect(left.messages).toHaveLength(3);
});

test("those that are selected are discarded, with a reason", async ({ serve, reader, page }) => {
  const daemon = await serve();
  for (const id of ["a", "b", "c"]) await daemon.enqueue("echo.lost", id, "customer is gone");
  await daemon.settled("dead", 3);
  await reader.open(daemon, "#/messages?state=dead");
  await page.getByRole("checkbox", { name: "Select a" }).check();
  await page.getByRole("checkbox", { name: "Select c" }).check();
  await expect(page.getByText("2 selected")).toBeVisible();
  await page.getByRole("button", { name: "Discard…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Discard 2 messages" }).click();
  await expect(dialog.getByLabel("Reason")).toBeFocused();
  await dialog.getByLabel("Reason").fill("test data");
  await dialog.getByRole("button", { name: "Discard 2 messages" }).click();
  await expect(dialog.getByRole("status")).toContainText("2 messages discarded");
  await dialog.getByRole("button", { name: "Close" }).click();
  await expect(page.getByRole("row")).toHaveCount(2);
  await expect(page.getByRole("link", { name: "b", exact: true })).toBeVisible();
});

test("without a state nothing can be done to all matching messages", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await daemon.enqueue("report.nightly", "a");
  await reader.open(daemon, "#/messages");
  await expect(page.getByText("Filter by the state dead or open")).toBeVisible();
  await expect(page.getByRole("button", { name: "Discard…" })).toHaveCount(0);
});
