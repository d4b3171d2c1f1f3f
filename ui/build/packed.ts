import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";

const WORTH_PACKING = /\.(css|js|html|svg)$/;

/** Writes each text file a second time, packed, so that the API hands it out without packing it for every reader. */
export function packed(): Plugin {
  let folder = "";
  return {
    name: "trilithon-packed",
    apply: "build",
    configResolved(config) {
      folder = join(config.root, config.build.outDir);
    },
    closeBundle() {
      for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
        if (!WORTH_PACKING.test(name)) continue;
        writeFileSync(join(folder, `${name}.gz`), gzipSync(readFileSync(join(folder, name)), { level: 9 }));
      }
    },
  };
}
