import { expect, test } from "./fixture";

test("a line of a megabyte is cut, and shown when asked for", async ({ serve, reader, page }) => {
  const daemon = await serve();
  const line = "x".repeat(1_000_000);
  await daemon.enqueue("echo.long", "long", line);
  await daemon.settled("dead", 1);
  await reader.open(daemon, "#/messages?state=dead");
  await expect(page.getByRole("link", { name: "long" })).toBeVisible();
  expect((await page.locator("main").innerText()).length).toBeLessThan(5000);
  await page.getByRole("link", { name: "long" }).click();
  const content = page.locator("pre.content");
  await expect(content).toBeVisible();
  expect((await content.innerText()).length).toBeLessThan(5000);
  await reader.picture("long_line");
  await page.locator(".content-box").getByRole("button", { name: /Show more/ }).click();
  await expect.poll(async () => (await content.innerText()).length).toBeGreaterThan(50_000);
  await page.getByRole("button", { name: /Load up to/ }).click();
  await page.locator(".content-box").getByRole("button", { name: /Show more/ }).click();
  await expect.poll(async () => (await content.innerText()).length).toBe(1_000_000);
});
