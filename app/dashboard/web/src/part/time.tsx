import { useEffect, useState } from "preact/hooks";
import { endOfTime, localTime, relative } from "../format";

/** The current time, updated every second, for relative times. */
export function useNow(): Date {
  const [now, setNow] = useState(() => new Date());
  useEffect(() => {
    const timer = setInterval(() => setNow(new Date()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** "5 min ago"; the exact time is in the title, and next to it if there is room. */
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
