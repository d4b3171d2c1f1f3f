// What a first visit to the cluster list takes, gzipped: the page, its scripts and its styles. Ends with 1 above the
// budget of quality.md 3. `npm run build` runs it, and tests/browser measures the same in the browser.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const BUDGET_KIB = 250;
const dist = fileURLToPath(new URL("../dist/", import.meta.url));
const html = readFileSync(`${dist}index.html`, "utf8");
const files = ["index.html", ...[...html.matchAll(/(?:src|href)="\/([^"]+\.(?:js|css))"/g)].map(([, name]) => name)];
let total = 0;
for (const name of files) {
  const size = gzipSync(readFileSync(dist + name), { level: 9 }).length / 1024;
  total += size;
  console.log(`${size.toFixed(1).padStart(7)} KiB  ${name}`);
}
console.log(`${total.toFixed(1).padStart(7)} KiB  first load, gzip (at most ${BUDGET_KIB})`);
process.exitCode = total > BUDGET_KIB ? 1 : 0;
