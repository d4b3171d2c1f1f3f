// Runs before the first paint, so that a dark page never flashes white.
(function () {
  var chosen = null;
  try {
    chosen = localStorage.getItem("trilithon-theme");
  } catch {
    chosen = null;
  }
  var dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.classList.toggle("pf-v6-theme-dark", dark);
})();
