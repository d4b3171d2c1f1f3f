import { useSearchParams } from "react-router-dom";

type Changes = Record<string, string>;

/** What a list shows lives in its address: the parameters, and a way to change some (an empty text takes one out). */
export function useAddress(): [URLSearchParams, (changes: Changes, replace?: boolean) => void] {
  const [params, setParams] = useSearchParams();
  const set = (changes: Changes, replace = false) =>
    setParams(
      (before) => {
        const next = new URLSearchParams(before);
        for (const [key, value] of Object.entries(changes)) {
          if (value) next.set(key, value);
          else next.delete(key);
        }
        return next;
      },
      { replace },
    );
  return [params, set];
}
