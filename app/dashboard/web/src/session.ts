// Who is looking, and what they may do.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Me } from "./api/types";

export interface Session {
  me: Me | null;
  /** Asks again who this is: after a login or a logout. */
  refresh: () => Promise<void>;
}

export const SessionContext = createContext<Session>({ me: null, refresh: async () => {} });

export function useSession(): Session {
  return useContext(SessionContext);
}

/** Buttons that the daemon would refuse are not there. */
export function useCanOperate(): boolean {
  return useSession().me?.can.operate ?? false;
}
