import { expect, test } from "./fixture";

const place = (id: string) => `#/message?store=main&box=outbox&id=${encodeURIComponent(id)}`;

test("is edited with a difference to look at, and requeued", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await daemon.enqueue("echo.lost", "one", '{"customer":"0815","items":[1,2,3],"paid":true}');
  await daemon.settled("dead", 1);
  await daemon.ask("POST", "v1/dispatch/pause", "{}");
  await reader.open(daemon, place("one"));
  await page.getByRole("button", { name: "Edit…" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("button", { name: "Review the change" })).toBeDisabled();
  const text = await dialog.getByLabel("Content").inputValue();
  await dialog.getByLabel("Content").fill(text.replace("0815", "4711") + "}");
  await expect(dialog.getByText("This is not valid JSON")).toBeVisible();
  await dialog.getByLabel("Content").fill(text.replace("0815", "4711"));
  await dialog.getByRole("button", { name: "Review the change" }).click();
  await expect(dialog.locator(".removed")).toContainText('"customer": "0815"');
  await expect(dialog.locator(".added")).toContainText('"customer": "4711"');
  await reader.inspect("edit_dialog");
  await dialog.getByLabel("Reason").fill("the customer moved");
  await dialog.getByRole("button", { name: "Save and requeue" }).click();
  await expect(dialog.getByRole("status")).toContainText("Saved, and requeued.");
  await dialog.getByRole("button", { name: "Close" }).click();
  await expect(page.locator(".bar .state")).toHaveText("ready");
  const now = await daemon.ask("GET", "v1/messages/one");
  expect(now.payload).toBe('{"customer":"4711","items":[1,2,3],"paid":true}');
  expect(now.content_version).toBe(2);
  await page.goto(daemon.url + "#/audit");
  await page.getByRole("link", { name: `№ ${now.number}` }).click();
  await expect(page).toHaveURL(/id=one/);
  await expect(page.getByRole("heading", { name: "echo.lost" })).toBeVisible();
  await page.goto(daemon.url + "#/message?store=main&box=outbox&number=4711");
  await expect(page.getByText("Message not found.")).toBeVisible();
});

test("an edit that another operation overtook is refused", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await daemon.enqueue("echo.lost", "one", '{"customer":"0815"}');
  await daemon.settled("dead", 1);
  await reader.open(daemon, place("one"));
  await page.getByRole("button", { name: "Edit…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Content").fill('{"customer":"mine"}');
  await dialog.getByRole("button", { name: "Review the change" }).click();
  const { number } = await daemon.ask("GET", "v1/messages/one");
  const other = { store: "main", box: "outbox", number, content_version: 1, payload: "theirs", operation_id: "other" };
  await daemon.ask("POST", "v1/messages/edit", JSON.stringify(other));
  reader.expected = /409/;
  await dialog.getByRole("button", { name: "Save and requeue" }).click();
  await expect(dialog.getByRole("alert")).toContainText(/version/i);
  expect((await daemon.ask("GET", "v1/messages/one")).payload).toBe("theirs");
});

test("its trace is a link where one is configured", async ({ serve, reader, page }) => {
  const daemon = await serve({ before: '[dashboard]\ntrace_link = "https://traces.example/t/{trace_id}"\n' });
  const trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  await daemon.enqueue("report.nightly", "one", "{}", { traceparent: `00-${trace}-00f067aa0ba902b7-01` });
  await reader.open(daemon, place("one"));
  await expect(page.getByRole("link", { name: trace })).toHaveAttribute("href", `https://traces.example/t/${trace}`);
});

test("configured parts of a content are hidden, and an edit replaces all of it", async ({ serve, reader, page }) => {
  const daemon = await serve({ before: '[dashboard]\nredact = ["/card/number"]\n' });
  await daemon.enqueue("echo.lost", "one", '{"card":{"number":"4111111111111111","name":"Ada"}}');
  await daemon.settled("dead", 1);
  await reader.open(daemon, place("one"));
  await expect(page.getByText("Hidden by the configuration: /card/number")).toBeVisible();
  await expect(page.locator("pre.content")).toContainText("Ada");
  await expect(page.locator("pre.content")).not.toContainText("4111");
  await page.getByRole("button", { name: "Edit…" }).click();
  await expect(page.getByRole("textbox", { name: "Content" })).toHaveValue("");
});
