import { expect, test } from "./fixture";
import { tokens } from "./daemon";

test("the link of the first start logs in, and leaves no token in the address", async ({ serve, reader, page }) => {
  const daemon = await serve({ withTokens: false });
  const link = await daemon.loginLink();
  await reader.open(daemon, link.slice(link.indexOf("#")), null);
  await expect(page.getByRole("button", { name: "Log out" })).toBeVisible();
  await expect(page).toHaveURL(daemon.url + "#/");
  const [cookie] = await page.context().cookies();
  expect(cookie).toMatchObject({ name: "twinbox", httpOnly: true, sameSite: "Strict" });
});

test("without a token everything can be read and nothing done", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await daemon.enqueue("echo.lost", "one", "no such customer");
  await daemon.settled("dead", 1);
  await reader.open(daemon, "#/messages?state=dead", null);
  await expect(page.getByRole("link", { name: "one" })).toBeVisible();
  await expect(page.getByRole("checkbox")).toHaveCount(0);
  await expect(page.getByRole("button", { name: /Requeue|Discard/ })).toHaveCount(0);
  await page.getByRole("link", { name: "one" }).click();
  await expect(page.getByRole("heading", { name: "echo.lost" })).toBeVisible();
  await expect(page.getByRole("button", { name: /Requeue|Discard|Edit/ })).toHaveCount(0);
  await expect(page.getByText("Read only")).toBeVisible();
});

test("the role read has no buttons, and the daemon refuses what they would do", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await daemon.enqueue("echo.lost", "one", "no such customer");
  await daemon.settled("dead", 1);
  await reader.open(daemon, "#/dead", "read");
  await expect(page.getByRole("heading", { name: "echo.lost" })).toBeVisible();
  await expect(page.getByText("read only")).toBeVisible();
  await expect(page.getByRole("button", { name: /Requeue|Discard/ })).toHaveCount(0);
  await page.goto(daemon.url + "#/stores");
  await expect(page.getByRole("link", { name: "main" }).first()).toBeVisible();
  await expect(page.getByRole("button", { name: /Pause/ })).toHaveCount(0);
  reader.expected = /403/;
  const status = await page.evaluate(async () => {
    const answer = await fetch("v1/messages/requeue", { method: "POST", body: '{"filter":{"state":"dead"}}' });
    return answer.status;
  });
  expect(status).toBe(403);
});

test("the form takes a token, says when it is none, and gives it back", async ({ serve, reader, page }) => {
  const daemon = await serve();
  reader.expected = /401/;
  await reader.open(daemon, "#/login", null);
  await expect(page.getByRole("heading", { name: "Log in" })).toBeVisible();
  await reader.inspect("login");
  await page.getByLabel("Token").fill("nobody");
  await page.getByRole("button", { name: "Log in" }).click();
  await expect(page.getByRole("alert")).toContainText("Unknown token");
  await page.getByLabel("Token").fill(tokens.operate);
  await page.getByRole("button", { name: "Log in" }).click();
  await expect(page.getByRole("button", { name: "Log out" })).toBeVisible();
  await expect(page.getByText("anna")).toBeVisible();
  await page.getByRole("button", { name: "Log out" }).click();
  await expect(page.getByRole("link", { name: /Read only/ })).toBeVisible();
  await expect.poll(() => page.context().cookies()).toEqual([]);
});

test("where reading needs a token, the page asks for one", async ({ serve, reader, page }) => {
  const daemon = await serve({ access: "" });
  reader.expected = /401/;
  await reader.open(daemon, "#/stores", null);
  await expect(page.getByText("requires a token")).toBeVisible();
  await page.getByLabel("Token").fill(tokens.read);
  await page.getByRole("button", { name: "Log in" }).click();
  await expect(page.getByRole("heading", { name: "Stores and topics" })).toBeVisible();
});
