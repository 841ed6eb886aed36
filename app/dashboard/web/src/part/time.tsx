import { useEffect, useState } from "preact/hooks";
import { endOfTime, localTime, relative } from "../format";

/** The present, once a second, for what is told relative to it. */
export function useNow(): Date {
  const [now, setNow] = useState(() => new Date());
  useEffect(() => {
    const timer = setInterval(() => setNow(new Date()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** "5 min ago"; the exact time is its title, and stands beside it where there is room. */
export function When({ at, exact = false }: { at: string; exact?: boolean }) {
  const now = useNow();
  const time = new Date(at);
  return (
    <time dateTime={at} title={at} class="when">
      {exact && !endOfTime(time) ? (
        <>
          {localTime(time)} <span class="soft">({relative(time, now)})</span>
        </>
      ) : (
        relative(time, now)
      )}
    </time>
  );
}
