// How does the console ask before it does something?

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Failure, useAction } from "./loading.tsx";

/** A modal dialog with a form. It closes when `submit` has succeeded. Escape and Cancel close it, too. */
export function Dialog({
  title,
  submitLabel,
  isDangerous = false,
  canSubmit = true,
  submit,
  close,
  children,
}: {
  title: string;
  /** Absent: there is nothing to submit. */
  submitLabel?: string;
  isDangerous?: boolean;
  canSubmit?: boolean;
  submit?: () => Promise<unknown>;
  close: () => void;
  children: ComponentChildren;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  const action = useAction();
  useEffect(() => {
    const dialog = ref.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  const onSubmit = async (event: Event) => {
    event.preventDefault();
    if (submit !== undefined && (await action.run(submit))) close();
  };
  return (
    <dialog ref={ref} aria-labelledby={titleId} onCancel={close}>
      <form onSubmit={onSubmit}>
        <h2 id={titleId}>{title}</h2>
        {children}
        <Failure error={action.error} />
        <div class="buttons">
          <button type="button" onClick={close}>
            {submit === undefined ? "Close" : "Cancel"}
          </button>
          {submitLabel !== undefined && (
            <button
              type="submit"
              class={isDangerous ? "danger" : "primary"}
              disabled={!canSubmit || action.isRunning}
            >
              {submitLabel}
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}

/** Asks before something is deleted for ever: the user writes its name. */
export function ConfirmDeletion({
  title,
  name,
  submitLabel = "Delete",
  submit,
  close,
  children,
}: {
  title: string;
  name: string;
  submitLabel?: string;
  submit: () => Promise<unknown>;
  close: () => void;
  children: ComponentChildren;
}) {
  const [written, setWritten] = useState("");
  return (
    <Dialog
      title={title}
      submitLabel={submitLabel}
      isDangerous
      canSubmit={written === name}
      submit={submit}
      close={close}
    >
      {children}
      <label class="field">
        <span>
          Write <b class="mono">{name}</b> to confirm
        </span>
        <input
          value={written}
          onInput={(event) => setWritten(event.currentTarget.value)}
          autocomplete="off"
        />
      </label>
    </Dialog>
  );
}
