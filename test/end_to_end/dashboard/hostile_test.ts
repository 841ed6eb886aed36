import { expect, test } from "./fixture";

const script = `<script>document.title='taken'</script><img src=x onerror="document.title='taken'">`;
const turned = "invoice\u202egnp.exe\u202c\u200b\u0007";

test("script tags, direction marks and control characters are text everywhere", async ({ serve, reader, page }) => {
  const daemon = await serve();
  const topic = "echo." + script;
  await daemon.enqueue(topic, script, `${script} ${turned}`);
  await daemon.settled("dead", 1);
  for (const [place, name] of [
    ["#/messages?state=dead", "hostile_messages"],
    ["#/dead", "hostile_dead"],
    ["#/stores?show=topics", "hostile_topics"],
    [`#/message?store=main&box=outbox&id=${encodeURIComponent(script)}`, "hostile_message"],
  ] as const) {
    await reader.open(daemon, place);
    await expect(page.locator("main")).toContainText("<script>document.title='taken'</script>");
    await expect(page.locator("main script, main img")).toHaveCount(0);
    await expect(page).not.toHaveTitle("taken");
    await reader.picture(name);
  }
  const marks = page.locator("pre.content .mark");
  await expect(marks).toHaveText(["U+202E", "U+202C", "U+200B", "U+0007"]);
  const shown = await page.locator("body").innerText();
  expect(shown).not.toMatch(/[\u202a-\u202e\u2066-\u2069\u200b\u0007]/);
});

test("the policy of the page lets nothing inline run, and nobody frame it", async ({ serve, reader, page }) => {
  const daemon = await serve();
  await reader.open(daemon);
  const answer = await page.request.get(daemon.url);
  const headers = answer.headers();
  expect(headers["content-security-policy"]).not.toMatch(/unsafe|\*/);
  expect(headers["x-frame-options"]).toBe("DENY");
  expect(headers["x-content-type-options"]).toBe("nosniff");
  reader.expected = /Content Security Policy|content security/i;
  await page.evaluate(() => {
    const element = document.createElement("script");
    element.textContent = "document.title = 'taken'";
    document.body.append(element);
  });
  await expect(page).not.toHaveTitle("taken");
});
