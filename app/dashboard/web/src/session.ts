// The current user and their permissions.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Me } from "./api/types";

export interface Session {
  me: Me | null;
  /** Reloads the user after a login or a logout. */
  refresh: () => Promise<void>;
}

export const SessionContext = createContext<Session>({ me: null, refresh: async () => {} });

export function useSession(): Session {
  return useContext(SessionContext);
}

/** Actions that the daemon would refuse have no button. */
export function useCanOperate(): boolean {
  return useSession().me?.can.operate ?? false;
}
