import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { packed } from "./build/packed.ts";
import { dropUnusedStyles } from "./build/styles.ts";

// `npm run dev` serves the pages and hands the API's addresses on to a running `trilithon up`.
export default defineConfig({
  plugins: [react(), dropUnusedStyles(), packed()],
  server: { fs: { allow: [".."] }, proxy: { "/api": process.env.TRILITHON_URL ?? "http://127.0.0.1:8080" } },
  build: { sourcemap: false, chunkSizeWarningLimit: 900, cssCodeSplit: false, rolldownOptions: { checks: { pluginTimings: false } } },
});
