// Light or dark: the system's preference unless the user chose one.
import { useEffect, useState } from "preact/hooks";

export type Choice = "system" | "light" | "dark";
const key = "twinbox.theme";

function stored(): Choice {
  try {
    const value = localStorage.getItem(key);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

const systemDark = matchMedia("(prefers-color-scheme: dark)");

function apply(choice: Choice): void {
  const dark = choice === "dark" || (choice === "system" && systemDark.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

export function startTheme(): void {
  apply(stored());
  systemDark.addEventListener("change", () => apply(stored()));
}

export function useTheme(): [Choice, (choice: Choice) => void] {
  const [choice, setChoice] = useState(stored);
  const choose = (next: Choice) => {
    try {
      if (next === "system") localStorage.removeItem(key);
      else localStorage.setItem(key, next);
    } catch {
      // If storage is disabled, the choice lasts as long as the page.
    }
    apply(next);
    setChoice(next);
  };
  return [choice, choose];
}

/** Changes whenever the colours do: for what is drawn, not styled. */
export function useThemeName(): string {
  const [name, setName] = useState(document.documentElement.dataset.theme ?? "light");
  useEffect(() => {
    const observer = new MutationObserver(() => setName(document.documentElement.dataset.theme ?? "light"));
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => observer.disconnect();
  }, []);
  return name;
}
