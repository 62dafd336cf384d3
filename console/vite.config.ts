import { fileURLToPath } from "node:url";

import { defineConfig } from "vite";

const sdk = (file: string) => fileURLToPath(new URL(`../sdk/typescript/src/${file}`, import.meta.url));
const own = (name: string) => fileURLToPath(new URL(`node_modules/${name}`, import.meta.url));

export default defineConfig({
  // The page may be served below a path.
  base: "./",
  resolve: {
    alias: {
      "@handback/client": sdk("index.ts"),
      "@handback/feed": sdk("feed.ts"),
      // The SDK's sources are used in place; what they need is the console's.
      "eventsource-parser": own("eventsource-parser"),
    },
  },
  // `npm run dev` beside `handback serve`.
  server: {
    proxy: Object.fromEntries(
      ["/client-tools", "/session", "/permission", "/event", "/api", "/auth", "/doc", "/healthz"].map((path) => [
        path,
        { target: "http://127.0.0.1:4096", ws: true },
      ]),
    ),
  },
  build: {
    // The crate embeds them, and its package holds nothing from outside of it.
    outDir: fileURLToPath(new URL("../crates/server/console", import.meta.url)),
    emptyOutDir: true,
    target: "es2022",
    // The first that know `light-dark()`.
    cssTarget: ["chrome123", "edge123", "firefox120", "safari17.5"],
    modulePreload: { polyfill: false },
    // Everything is a file of its own: nothing inline passes the page's content security policy.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
});
