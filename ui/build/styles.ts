import { createHash } from "node:crypto";
import { PurgeCSS } from "purgecss";
import type { OutputAsset, OutputChunk } from "rolldown";
import type { Plugin } from "vite";

// PatternFly's stylesheets come whole (1.1 MB) and its class maps name every class, used or not, so looking for class
// names in the scripts would keep them all. What is looked for is the maps' keys: `styles.modifiers.primary` and
// `variant="primary"` both spell "primary". What is dropped is written to dist/dropped-classes.json, and tests/browser
// fails when an element of a page ever carries a class from there.

/** Put together when the page runs, or set by public/theme.js; nothing spells them out. */
const BUILT_AT_RUN_TIME = [/^pf-v6-theme-dark$/, /^pf-m-grid(-md|-lg)?$/, /^pf-m-display-/, /^pf-m-breakpoint-/, /^pf-v6-icon-/, /^stands-for-a-denial-/];
/** Breakpoints that our pages and the components on them use as `{ md: … }`. */
const BREAKPOINTS = /On(Md|Lg)$/;
const ANY_BREAKPOINT = /On(Sm|Md|Lg|Xl|2xl)$/;
/** PurgeCSS drops a rule for "where nobody carries X" with X itself, so it sees a class of our own in its place. */
const DENIAL = /:(where|is)\(:not\(\.([\w-]+)\)\)/g;
const STAND_IN = "stands-for-a-denial";
const CLASS_MAP = /@patternfly[\\/]react-styles[\\/]css[\\/]/;

/** Takes out of the stylesheet what no page can use, and the variables that nobody reads then. */
export function dropUnusedStyles(): Plugin {
  return {
    name: "trilithon-drop-unused-styles",
    apply: "build",
    enforce: "post",
    async generateBundle(_, bundle) {
      const files = Object.values(bundle);
      const chunks = files.filter((file): file is OutputChunk => file.type === "chunk");
      const sheets = files.filter((file): file is OutputAsset => file.type === "asset" && file.fileName.endsWith(".css"));
      const sheet = sheets[0];
      if (!sheet || sheets.length > 1) throw new Error("one stylesheet is expected: build.cssCodeSplit is false");

      const whole = String(sheet.source);
      const content = [...usedClasses(chunks), "html", "body", "div", "root", "noscript"].join(" ");
      const [kept] = await new PurgeCSS().purge({
        content: [{ raw: content, extension: "txt" }],
        css: [{ raw: whole.replaceAll(DENIAL, `.${STAND_IN}-$1-$2-`) }],
        defaultExtractor: (text) => text.split(" "),
        safelist: { standard: BUILT_AT_RUN_TIME },
        variables: true,
      });
      if (!kept) throw new Error("no stylesheet came back");
      const css = kept.css.replaceAll(new RegExp(`\\.${STAND_IN}-(where|is)-(.+?)-(?![\\w-])`, "g"), ":$1(:not(.$2))");
      sheet.source = css;
      rename(sheet, files, `assets/style-${createHash("sha256").update(css).digest("base64url").slice(0, 8)}.css`);
      const left = classesOf(css);
      const dropped = [...classesOf(whole)].filter((name) => !left.has(name)).sort();
      this.emitFile({ type: "asset", fileName: "dropped-classes.json", source: JSON.stringify(dropped) });
    },
  };
}

/** The name was made from what the sheet held before; browsers keep these files for ever, so it must name what it holds. */
function rename(sheet: OutputAsset, files: (OutputAsset | OutputChunk)[], name: string): void {
  const before = sheet.fileName;
  for (const file of files) {
    if (file.type === "chunk") file.code = file.code.replaceAll(before, name);
    else if (file.fileName.endsWith(".html")) file.source = String(file.source).replaceAll(before, name);
  }
  sheet.fileName = name;
}

function usedClasses(chunks: OutputChunk[]): Set<string> {
  const words = new Set<string>();
  const maps: string[] = [];
  for (const chunk of chunks) {
    for (const [id, module] of Object.entries(chunk.modules)) {
      const code = module.code ?? "";
      if (CLASS_MAP.test(id)) maps.push(code);
      else for (const word of code.match(/[\w-]+/g) ?? []) words.add(word);
    }
  }
  for (const [, key = "", name = ""] of maps.join("\n").matchAll(/"?([\w-]+)"?: "(pf-[\w-]+)"/g)) {
    const base = key.replace(ANY_BREAKPOINT, "");
    if (words.has(key) || (BREAKPOINTS.test(key) && words.has(base))) words.add(name);
  }
  return words;
}

function classesOf(css: string): Set<string> {
  return new Set([...css.matchAll(/\.(-?[A-Za-z_][\w-]*)/g)].map(([, name]) => name as string));
}
