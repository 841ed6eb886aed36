// A sortable table that becomes a list of cards on narrow pages.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { count } from "../format";

export interface Column<Row> {
  name: string;
  title: string;
  cell: (row: Row) => ComponentChildren;
  /** The sort key; without it the column cannot be sorted. */
  sort?: (row: Row) => number | string;
  number?: boolean;
  /** The cell that names the row. */
  head?: boolean;
  /** Titles of columns with buttons or boxes are for screen readers only. */
  unseen?: boolean;
  wide?: boolean;
}

interface Props<Row> {
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
  /** The initial sort column, in descending order. */
  first?: string;
  rowClass?: (row: Row) => string;
}

interface SortOrder {
  by: string;
  down: boolean;
}

function sorted<Row>(rows: Row[], columns: Column<Row>[], order: SortOrder | null): Row[] {
  const sort = columns.find((column) => column.name === order?.by)?.sort;
  if (!order || !sort) return rows;
  const sign = order.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const left = sort(a);
    const right = sort(b);
    if (typeof left === "string" || typeof right === "string") return sign * String(left).localeCompare(String(right), "en", { numeric: true });
    return sign * (left - right);
  });
}

/** More rows make the page slow. */
const pageSize = 200;

export function Table<Row>({ caption, columns, rows, rowKey, first, rowClass }: Props<Row>) {
  const [order, setOrder] = useState<SortOrder | null>(first ? { by: first, down: true } : null);
  const [shown, setShown] = useState(pageSize);
  const sortBy = (column: Column<Row>) =>
    setOrder((before) =>
      before?.by === column.name ? { by: column.name, down: !before.down } : { by: column.name, down: !!column.number },
    );
  return (
    <div class="table">
      <table>
        <caption class="unseen">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <Heading key={column.name} column={column} order={order} onSort={() => sortBy(column)} />
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted(rows, columns, order).slice(0, shown).map((row) => (
            <tr key={rowKey(row)} class={rowClass?.(row)}>
              {columns.map((column) => (
                <Cell key={column.name} column={column} row={row} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > shown && (
        <p class="rest">
          <button type="button" class="quiet" onClick={() => setShown(shown * 2)}>
            Show more rows <span class="soft">({count(rows.length - shown)} left)</span>
          </button>
        </p>
      )}
    </div>
  );
}

function Heading<Row>({ column, order, onSort }: { column: Column<Row>; order: SortOrder | null; onSort: () => void }) {
  const sort = order?.by === column.name ? (order.down ? "descending" : "ascending") : undefined;
  const look = [column.number && "number", column.wide && "wide"].filter(Boolean).join(" ");
  return (
    <th scope="col" class={look} aria-sort={sort}>
      {column.sort ? (
        <button type="button" class="sort" onClick={onSort}>
          {column.title}
          <span class="arrow" aria-hidden="true">
            {sort === "descending" ? "▾" : sort === "ascending" ? "▴" : ""}
          </span>
        </button>
      ) : (
        <span class={column.unseen ? "unseen" : ""}>{column.title}</span>
      )}
    </th>
  );
}

function Cell<Row>({ column, row }: { column: Column<Row>; row: Row }) {
  const look = [column.number && "number", column.wide && "wide", column.unseen && "bare"].filter(Boolean).join(" ");
  const body = column.cell(row);
  // Narrow pages hide the headings, so each card shows the titles.
  const title = (
    <span class="label" aria-hidden="true">
      {column.title}
    </span>
  );
  if (column.head) {
    return (
      <th scope="row" class={look}>
        {body}
      </th>
    );
  }
  return (
    <td class={look}>
      {!column.unseen && title}
      {body}
    </td>
  );
}
