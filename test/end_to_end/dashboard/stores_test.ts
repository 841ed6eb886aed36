import { expect, test } from "./fixture";

test("stores and topics are sorted by any column", async ({ serve, reader, page }) => {
  const daemon = await serve({ stores: ["main", "shelf"] });
  for (const id of ["a", "b", "c"]) await daemon.enqueue("report.daily", id);
  await daemon.enqueue("report.nightly", "d");
  await daemon.ask("POST", "v1/outbox/customer.moved?store=shelf", "{}");
  await reader.open(daemon, "#/stores");
  const first = page.getByRole("row").nth(1);
  await expect(first, "largest backlog first").toContainText("main");
  await expect(first).toContainText("4");
  await page.getByRole("button", { name: "Store" }).click();
  await expect(page.getByRole("columnheader", { name: "Store" })).toHaveAttribute("aria-sort", "ascending");
  await expect(first).toContainText("main");
  await page.getByRole("button", { name: "Store" }).click();
  await expect(first).toContainText("shelf");
  await expect(page.getByRole("columnheader", { name: "Store" })).toHaveAttribute("aria-sort", "descending");
  await reader.inspect("stores");
  await page.getByRole("radio", { name: "Topics" }).check();
  await expect(first).toContainText("report.daily");
  await page.getByRole("button", { name: "Topic" }).click();
  await expect(first).toContainText("customer.moved");
  await reader.inspect("topics");
});

test("a store and a topic are paused and resumed", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await daemon.enqueue("report.nightly", "a");
  await reader.open(daemon, "#/stores");
  await page.getByRole("button", { name: "Pause main" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Pause the store" }).click();
  await expect(page.getByText("paused").first()).toBeVisible();
  expect((await daemon.ask("GET", "v1/dispatch")).paused_stores).toEqual(["main"]);
  await page.getByRole("button", { name: "Resume main" }).first().click();
  await dialog.getByRole("button", { name: "Resume the store" }).click();
  await expect(page.getByText("paused")).toHaveCount(0);
  await page.getByRole("radio", { name: "Topics" }).check();
  await page.getByRole("button", { name: "Pause report.nightly" }).click();
  await dialog.getByRole("button", { name: "Pause the topic" }).click();
  await expect(page.getByText("paused")).toBeVisible();
  expect((await daemon.ask("GET", "v1/dispatch")).paused_topics).toEqual(["report.nightly"]);
  await page.getByRole("button", { name: "Pause everything" }).click();
  await dialog.getByRole("button", { name: "Pause everything" }).click();
  await expect(page.getByRole("button", { name: "Resume everything" })).toBeVisible();
  expect((await daemon.ask("GET", "v1/dispatch")).paused).toBe(true);
});

test("a route is disabled with a reason, and enabled", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await reader.open(daemon, "#/stores?show=routes");
  await page.getByRole("button", { name: "Disable payments" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Reason").fill("the bank is closed");
  await dialog.getByRole("button", { name: "Disable route" }).click();
  await expect(page.getByRole("row").filter({ hasText: "payments" })).toContainText("the bank is closed");
  await reader.inspect("routes");
  await page.getByRole("button", { name: "Enable payments" }).click();
  await dialog.getByRole("button", { name: "Enable route" }).click();
  await expect(page.getByRole("button", { name: "Disable payments" })).toBeVisible();
});

test("many stores are a heat map", async ({ serve, reader, page }) => {
  const stores = Array.from({ length: 14 }, (_, index) => `shop_${index}`);
  const daemon = await serve({ stores });
  for (let store = 0; store < 6; ++store) {
    for (let number = 0; number < 1 << store; ++number) {
      await daemon.ask("POST", `v1/outbox/report.daily?store=shop_${store}`, "{}");
    }
  }
  // The first count of many stores is slow, and the next one waits ten times as long: let the first one see it all.
  await daemon.stop();
  await daemon.start();
  await reader.open(daemon, "#/stores");
  const map = page.getByRole("region", { name: "Heat map of the stores" });
  await expect(map.getByRole("link")).toHaveCount(28);
  await expect(map.getByRole("link", { name: "shop_5 outbox" })).toContainText("32");
  await expect(map.getByRole("link", { name: "shop_5 outbox" })).toHaveClass(/heat5/);
  await expect(map.getByRole("link", { name: "shop_9 outbox" })).toHaveClass(/heat0/);
  await reader.inspect("heat_map");
  await map.getByRole("link", { name: "shop_5 outbox" }).click();
  await expect(page.getByRole("row")).toHaveCount(33);
});
