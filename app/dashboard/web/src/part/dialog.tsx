// A native dialog: it traps and restores the focus, and Escape closes it.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

interface Props {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}

/** The reason, kept in the audit with the operator's name. */
export function ReasonField({ value, onChange, required = false, children }: ReasonProps) {
  return (
    <label class="field">
      <span>Reason {!required && <span class="soft">(optional)</span>}</span>
      <input
        type="text"
        value={value}
        maxLength={500}
        required={required}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
      {children}
    </label>
  );
}

interface ReasonProps {
  value: string;
  onChange: (value: string) => void;
  required?: boolean;
  children?: ComponentChildren;
}

/** The only button of a finished dialog. */
export function Close({ onClose, primary = false }: { onClose: () => void; primary?: boolean }) {
  return (
    <p class="buttons">
      <button type="button" class={primary ? "primary" : ""} onClick={onClose}>
        Close
      </button>
    </p>
  );
}

export function Dialog({ title, onClose, children, wide = false }: Props) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const dialog = element.current!;
    const before = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={wide ? "wide" : ""}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <div class="dialog">
        <h2 id={heading}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}
