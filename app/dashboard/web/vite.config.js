import { defineConfig } from "vite";

export default defineConfig({
  // Relative, so that the page also works below a path of a reverse proxy.
  base: "./",
  build: {
    target: "es2022",
    // The content security policy knows no data: addresses and no inline script.
    assetsInlineLimit: 0,
    modulePreload: false,
    cssCodeSplit: false,
    reportCompressedSize: false,
  },
  // ./dev run in another terminal, then: npx vite
  server: { proxy: { "/v1": "http://127.0.0.1:7117" } },
});
