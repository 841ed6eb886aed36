// Chooses the store and the box of a view; messages and audits belong to one of each.
import { get } from "../api/client";
import type { BoxName, StoresPage, StoreView } from "../api/types";
import { useLoad, type Loaded } from "../load";
import { visibleText } from "../visible";

export interface Stored {
  stores: StoreView[];
  store: string;
  box: BoxName;
}

async function allStores(signal: AbortSignal): Promise<StoreView[]> {
  const stores: StoreView[] = [];
  let after: string | null = null;
  do {
    const page: StoresPage = await get<StoresPage>("v1/stores", { limit: 1000, after }, signal);
    stores.push(...page.stores);
    after = page.next;
  } while (after);
  return stores;
}

export function useStores(tick: number | null = null): Loaded<StoreView[]> {
  return useLoad(allStores, "stores", tick);
}

/** The store in the address if it exists, otherwise the first one with the box. */
export function chosen(stores: StoreView[], store: string | undefined, box: string | undefined): Stored | null {
  const named = stores.find((candidate) => candidate.name === store);
  const wanted: BoxName | null = box === "inbox" ? "inbox" : box === "outbox" ? "outbox" : null;
  const has = (candidate: StoreView, name: BoxName) => candidate.boxes.some((one) => one.box === name);
  const found = named ?? stores.find((candidate) => !wanted || has(candidate, wanted)) ?? stores[0];
  if (!found) return null;
  const boxFound = wanted && has(found, wanted) ? wanted : (found.boxes[0]?.box ?? "outbox");
  return { stores, store: found.name, box: boxFound };
}

interface Props {
  at: Stored;
  onChange: (store: string, box: BoxName) => void;
}

export function StoreChoice({ at, onChange }: Props) {
  const boxes = at.stores.find((store) => store.name === at.store)?.boxes ?? [];
  return (
    <>
      <label class="field">
        Store
        <select value={at.store} onChange={(event) => onChange(event.currentTarget.value, at.box)}>
          {at.stores.map((store) => (
            <option key={store.name} value={store.name}>
              {visibleText(store.name)}
            </option>
          ))}
        </select>
      </label>
      <label class="field">
        Box
        <select value={at.box} onChange={(event) => onChange(at.store, event.currentTarget.value as BoxName)}>
          {boxes.map(({ box }) => (
            <option key={box} value={box}>
              {box}
            </option>
          ))}
        </select>
      </label>
    </>
  );
}
