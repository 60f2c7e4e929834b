// How does a form ask?

import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { Failure } from "./loading.tsx";

export function Check({ label, isOn, set }: { label: string; isOn: boolean; set: (isOn: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={isOn} onChange={(event) => set(event.currentTarget.checked)} />
      {label}
    </label>
  );
}

export function Select<T extends string>({
  label,
  value,
  options,
  set,
}: {
  label: string;
  value: T;
  options: readonly T[];
  set: (value: T) => void;
}) {
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => set(event.currentTarget.value as T)}>
        {options.map((option) => (
          <option key={option} value={option}>
            {option}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A few options, of which one is on. */
export function Choice<T extends string>({
  label,
  value,
  options,
  set,
}: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  set: (value: T) => void;
}) {
  const name = useId();
  return (
    <div class="choice" role="radiogroup" aria-label={label}>
      {options.map(([option, text]) => (
        <label key={option}>
          <input type="radio" name={name} checked={option === value} onChange={() => set(option)} />
          {text}
        </label>
      ))}
    </div>
  );
}

type FieldProps = {
  label: string;
  value: string;
  set: (value: string) => void;
  placeholder?: string;
  /** What is wrong with the value; stands below the field. */
  error?: unknown;
};

/** How a field is bound to its label and to its error. */
function useBinding({ value, placeholder, error }: FieldProps) {
  const id = useId();
  const isWrong = error !== undefined;
  const describedBy = isWrong ? `${id}-error` : undefined;
  return { id, value, placeholder, "aria-invalid": isWrong, "aria-describedby": describedBy };
}

/** The label, the field, and below it what is wrong. */
function Labelled({
  id,
  label,
  error,
  children,
}: {
  id: string;
  label: string;
  error: unknown;
  children: ComponentChildren;
}) {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children}
      {error !== undefined && (
        <div id={`${id}-error`}>
          <Failure error={error} />
        </div>
      )}
    </div>
  );
}

export function Field({ type = "text", ...props }: FieldProps & { type?: "text" | "number" }) {
  const common = {
    ...useBinding(props),
    onInput: (event: { readonly currentTarget: HTMLInputElement }) => props.set(event.currentTarget.value),
  };
  return (
    <Labelled id={common.id} label={props.label} error={props.error}>
      {type === "number" ? <input type="number" step="any" {...common} /> : <input type="text" {...common} />}
    </Labelled>
  );
}

export function Area({ rows, ...props }: FieldProps & { rows?: number }) {
  const binding = useBinding(props);
  return (
    <Labelled id={binding.id} label={props.label} error={props.error}>
      <textarea
        {...binding}
        rows={rows}
        spellcheck={false}
        onInput={(event) => props.set(event.currentTarget.value)}
      />
    </Labelled>
  );
}
