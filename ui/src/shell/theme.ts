import { useEffect, useState } from "react";

export type Theme = "system" | "light" | "dark";

/** The person's choice of theme, kept in this browser; `public/theme.js` applies it before the first paint. */
export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState<Theme>(() => (localStorage.getItem("trilithon-theme") as Theme | null) ?? "system");
  useEffect(() => {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const paint = () =>
      document.documentElement.classList.toggle(
        "pf-v6-theme-dark",
        theme === "dark" || (theme === "system" && system.matches),
      );
    localStorage.setItem("trilithon-theme", theme);
    paint();
    system.addEventListener("change", paint);
    return () => system.removeEventListener("change", paint);
  }, [theme]);
  return [theme, setTheme];
}
