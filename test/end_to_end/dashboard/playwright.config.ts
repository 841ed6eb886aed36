import { defineConfig } from "@playwright/test";

const backends = process.env.TWINBOX_TEST_POSTGRES ? ["sqlite", "postgres"] : ["sqlite"];

export default defineConfig({
  testDir: ".",
  testMatch: "*_test.ts",
  fullyParallel: false,
  workers: 2,
  // Only what fails waits so long.
  timeout: 240_000,
  expect: { timeout: 60_000 },
  reporter: [["line"]],
  outputDir: "result",
  projects: [
    { name: "logic", testMatch: "logic_test.ts" },
    ...backends.map((name) => ({ name, testIgnore: "logic_test.ts", metadata: { backend: name } })),
  ],
  use: {
    viewport: { width: 1280, height: 900 },
    locale: "en-GB",
    timezoneId: "UTC",
    // Colours that are on their way would be measured half-way.
    contextOptions: { reducedMotion: "reduce" },
    launchOptions: {
      executablePath: process.env.TWINBOX_CHROMIUM ?? "/usr/bin/chromium",
      // Chromium's sandbox refuses to run as root, which tests in containers are.
      args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
    },
  },
});
