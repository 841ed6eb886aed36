import { expect, test } from "./fixture";

test("the keyboard reaches everything, and dialogs give the focus back", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await daemon.enqueue("echo.lost", "one", "customer is gone");
  await daemon.settled("dead", 1);
  await reader.open(daemon, "#/dead");
  const requeue = page.getByRole("button", { name: "Requeue…" });
  await expect(requeue).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: "Skip to content" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.locator("main")).toBeFocused();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await expect(requeue).toBeFocused();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Requeue 1 dead letter" });
  await expect(dialog.getByRole("button", { name: "Requeue 1 message" })).toBeVisible();
  for (let step = 0; step < 8; ++step) {
    await page.keyboard.press("Tab");
    const outside = await page.evaluate(() => document.activeElement?.closest("main") && !document.activeElement.closest("dialog"));
    expect(outside, "the focus stays in the dialog").toBeFalsy();
  }
  await page.keyboard.press("Escape");
  await expect(dialog).toHaveCount(0);
  await expect(requeue).toBeFocused();
  await page.getByRole("link", { name: "Stores" }).press("Enter");
  await expect(page.locator("main")).toBeFocused();
  await expect(page).toHaveTitle("Stores · Twinbox");
});

test("the choice of colours is kept", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await reader.theme("light");
  await reader.open(daemon);
  const root = page.locator("html");
  await expect(root).toHaveAttribute("data-theme", "light");
  await reader.theme("dark");
  await expect(root, "follows the system").toHaveAttribute("data-theme", "dark");
  await page.getByRole("button", { name: /Colours/ }).click();
  await expect(root).toHaveAttribute("data-theme", "light");
  await page.reload();
  await expect(root).toHaveAttribute("data-theme", "light");
});
